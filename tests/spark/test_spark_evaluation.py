"""The evaluation in Spark's tasks: the rows of the engine `driver`, also after a crash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from streaming.errors import TablesUnavailable, WriterFenced
from streaming.lag.paces import KnownPaces
from streaming.run import spark_evaluation
from streaming.run.spark_evaluation import EvaluationTask, SparkEvaluation
from streaming.tables import delta
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_STATUS,
    GROUPS,
    LOAD_PROGRESS,
)
from tests.support.tables.demo_incidents import END, create_demo_tables
from tests.support.tables.evaluated import (
    WRITTEN,
    evaluate,
    evaluated_rows,
    reader_at,
    start_evaluation,
)
from tests.support.tables.explained_incidents import START
from tests.support.tables.status_changes import contradictions
from tests.support.tables.tables_folder import (
    Crash,
    Row,
    apply_micro_batch,
    backdate,
    versions_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streaming.tables.schemas import Table

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

FIRST = END - timedelta(seconds=30)
"""The engine `driver` evaluates at this moment, and each engine at `END`, when a group is gone."""
GONE = "returns"


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tables that the engine `driver` has evaluated once; then a group was deleted."""
    tables = create_demo_tables(tmp_path_factory.mktemp("demo") / "tables {1}")
    evaluate(tables, FIRST)
    reader = TableReader(tables)
    groups = [row for row in reader.read(GROUPS.name).to_pylist() if row["group_id"] != GONE]
    progress = reader.read(LOAD_PROGRESS.name).drop_columns("table_versions").to_pylist()
    apply_micro_batch(tables, groups=groups, progress=progress)
    backdate(tables, LOAD_PROGRESS, START)
    return tables


@pytest.fixture(scope="module")
def expected(evaluated: str, tmp_path_factory: pytest.TempPathFactory) -> Mapping[Table, list[Row]]:
    """The rows that the engine `driver` writes."""
    tables = str(copytree(evaluated, tmp_path_factory.mktemp("driver") / "tables"))
    evaluate(tables, END)
    before, rows = evaluated_rows(evaluated), evaluated_rows(tables)
    for table in WRITTEN:
        assert before[table] != rows[table]
    assert GONE in {row["group_id"] for row in before[GROUP_STATUS]}
    assert GONE not in {row["group_id"] for row in rows[GROUP_STATUS]}
    return rows


@pytest.fixture
def tables(evaluated: str, tmp_path: Path) -> str:
    # Spark's readers take braces for a pattern.
    return str(copytree(evaluated, tmp_path / "tables {1}"))


def test_the_rows_are_those_of_the_driver_which_gets_only_numbers(
    spark: SparkSession,
    tables: str,
    expected: Mapping[Table, list[Row]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collected: list[pa.Table] = []
    read: set[str] = set()

    def refused(*_: object) -> None:
        raise AssertionError("rows come to the driver")

    kind = type(spark.range(1))
    to_arrow, rows_of_table = kind.toArrow, delta.rows_of

    def counted(frame: DataFrame) -> pa.Table:
        collected.append(to_arrow(frame))
        return collected[-1]

    def counted_rows(
        opened: Any, folder: str, table: Table, *args: Any, **options: Any
    ) -> pa.Table:
        read.add(table.name)
        return rows_of_table(opened, folder, table, *args, **options)

    with monkeypatch.context() as watched:
        for name in ("collect", "toPandas", "toLocalIterator", "take", "first", "tail"):
            watched.setattr(kind, name, refused)
        watched.setattr(kind, "toArrow", counted)
        watched.setattr(delta, "rows_of", counted_rows)
        evaluated = evaluate(tables, END, spark)
    assert (evaluated.groups, evaluated.processor_s > 0) == (len(expected[GROUP_STATUS]), True)
    assert evaluated_rows(tables) == expected
    assert list(contradictions(TableReader(tables), END)) == []
    # The last evaluation, and a row of each task: their size does not depend on the groups.
    last, counts = collected
    assert last.num_rows == 1
    assert 1 < counts.num_rows <= spark.sparkContext.defaultParallelism
    assert {*last.schema.types, *counts.schema.types} <= {
        *(pa.timestamp("us", "UTC"), pa.int64(), pa.float64())
    }
    assert read <= {LOAD_PROGRESS.name}

    versions = versions_of(tables)
    evaluate(tables, END + timedelta(seconds=1), spark)
    # Fences of the new writer.
    fences = dict.fromkeys(versions, 1)
    assert versions_of(tables) == {name: n + fences[name] for name, n in versions.items()}


@pytest.mark.parametrize("writes", [1, 2])
def test_a_crash_between_two_writes_changes_nothing(
    spark: SparkSession,
    tables: str,
    expected: Mapping[Table, list[Row]],
    writes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit, left = SparkEvaluation._commit, iter(range(writes))

    def crashing(tasks: SparkEvaluation, table: Table, rows: DataFrame) -> None:
        if next(left, None) is None:
            raise Crash
        commit(tasks, table, rows)

    with monkeypatch.context() as faulty:
        faulty.setattr(SparkEvaluation, "_commit", crashing)
        with pytest.raises(Crash):
            evaluate(tables, END, spark)
    assert sum(evaluated_rows(tables)[table] == expected[table] for table in WRITTEN) == writes
    evaluate(tables, END, spark)
    assert evaluated_rows(tables) == expected


def test_a_newer_run_fences_an_older_one(spark: SparkSession, tables: str) -> None:
    kept = start_evaluation(tables, spark)
    open_for_writing(tables, "newer")
    before = evaluated_rows(tables)
    with pytest.raises(WriterFenced, match="has taken over"):
        kept.evaluate(reader_at(tables, END), KnownPaces())
    assert evaluated_rows(tables) == before


@dataclass(frozen=True, slots=True)
class FaultyTask(EvaluationTask):
    """A task of which one set of log partitions fails."""

    def evaluated(self, log_partitions: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
        if 0 in log_partitions:
            raise OSError("no space")
        yield from EvaluationTask.evaluated(self, log_partitions)


def test_a_round_whose_task_fails_writes_nothing_and_the_next_one_goes_on(
    spark: SparkSession,
    tables: str,
    expected: Mapping[Table, list[Row]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A local master makes no other attempt of a task."""
    kept = start_evaluation(tables, spark)
    before, reader = evaluated_rows(tables), reader_at(tables, END)
    with monkeypatch.context() as faulty:
        faulty.setattr(spark_evaluation, "EvaluationTask", FaultyTask)
        with pytest.raises(TablesUnavailable, match="Spark cannot evaluate: OSError: no space"):
            kept.evaluate(reader, KnownPaces())
    assert evaluated_rows(tables) == before
    kept.evaluate(reader, KnownPaces())
    assert evaluated_rows(tables) == expected
