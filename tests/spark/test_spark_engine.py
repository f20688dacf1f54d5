"""The engine `spark`: equal to the engine `driver`, side by side with maintenance, and fenced."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.errors import AnalysisException

from coordinator_state.model.log import Written
from coordinator_state.model.micro_batches import micro_batch
from coordinator_state.replay.offsets import Semantics
from streaming.engine.spark.spark_tables import SparkTables
from streaming.engine.spark.spark_writes import SparkWrites
from streaming.errors import WriterFenced
from streaming.tables.schemas import GROUPS, Table
from streaming.views.catalog import register
from tests.support.logs.logs import segment
from tests.support.logs.random_logs import random_log
from tests.support.tables.every_table import (
    apply_next,
    assert_undisturbed,
    create,
    micro_batches,
)
from tests.support.tables.tables_folder import start_apply
from tests.support.tables.undisturbed import differences, empty_tables, table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(600)

LOGS = 30
NEWER_WRITER = str(1 << 60)


@pytest.fixture
def tables(tmp_path: Path) -> str:
    # Spark's readers take braces for a pattern.
    folder = str(tmp_path / "tables {1}")
    create(folder)
    return folder


@pytest.fixture(scope="module")
def loaded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder after one micro-batch; an earlier and a newer writer had staged rows in it."""
    folder = tmp_path_factory.mktemp("loaded") / "tables {1}"
    create(str(folder))
    for name in ("17", NEWER_WRITER):
        (folder / "staged" / name).mkdir(parents=True)
    apply_next(start_apply(str(folder), spark=spark))
    return folder


@pytest.mark.long
@pytest.mark.parametrize(
    "semantics",
    [Semantics.COORDINATOR, pytest.param(Semantics.SCALA, marks=pytest.mark.release)],
)
def test_every_row_is_that_of_the_driver(
    spark: SparkSession, tmp_path: Path, semantics: Semantics
) -> None:
    """Of random logs of every group type in two micro-batches, history and events included."""
    choose = random.Random(f"{semantics}")
    segments = [segment(random_log(choose, "g-", max_size=40)) for _ in range(LOGS)]
    cuts = [choose.randint(0, end) for _, end in segments]
    parts = [
        [Written(p, log, 0, cuts[p], end) for p, (log, end) in enumerate(segments)],
        [Written(p, log, cuts[p], end, end) for p, (log, end) in enumerate(segments)],
    ]
    rows = []
    for name, session in (("driver", None), ("spark", spark)):
        folder = str(tmp_path / name)
        create(folder, semantics=semantics, log_partitions=LOGS)
        for number, written in enumerate(parts):
            # Names of topic ids that only the stored groups have are asked for, too.
            apply = start_apply(folder, spark=session, topic_names=_names)
            apply.apply(micro_batch(written), number, "query")
        rows.append(table_rows(folder))
    assert list(differences(rows[1], rows[0])) == []
    # `every_table` has the other topics.
    assert empty_tables(rows[0]) == []


def _names(topic_ids: Collection[str]) -> dict[str, str]:
    return {topic_id: f"topic {topic_id}" for topic_id in topic_ids}


@pytest.mark.release
@pytest.mark.long
def test_a_write_that_conflicts_is_repeated(
    spark: SparkSession, loaded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A property of a table changes while a MERGE reads its source, as upkeep may do."""
    tables = str(shutil.copytree(loaded, tmp_path / loaded.name))
    apply = start_apply(tables, spark=spark)
    merge = SparkWrites._merge
    attempts: list[Table] = []
    groups = GROUPS.path(tables)

    def change(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = DeltaTable(groups)
        if "delta.appendOnly" not in table.metadata().configuration:
            table.alter.set_table_properties({"delta.appendOnly": "false"})
        yield from batches

    def merging(
        writes: SparkWrites,
        session: SparkSession,
        table: Table,
        planned: Callable[[SparkSession], DataFrame],
    ) -> None:
        def rows_meanwhile(session: SparkSession) -> DataFrame:
            attempts.append(table)
            rows = planned(session)
            return rows.mapInArrow(change, rows.schema)

        merge(writes, session, table, rows_meanwhile if table is GROUPS else planned)

    monkeypatch.setattr(SparkWrites, "_merge", merging)
    apply_next(apply)
    assert attempts == [GROUPS, GROUPS]
    assert_undisturbed(tables)


@pytest.mark.long
def test_a_run_of_the_other_engine_takes_over(spark: SparkSession, tables: str) -> None:
    newer = []

    def take_over() -> None:
        newer.append(start_apply(tables))
        apply_next(newer[0])

    older = start_apply(tables, spark=spark, fault=GROUPS.name, happens=take_over)
    with pytest.raises(WriterFenced, match="has taken over"):
        apply_next(older)
    with pytest.raises(WriterFenced, match="has taken over"):
        apply_next(older)
    last = start_apply(tables, spark=spark)
    with pytest.raises(WriterFenced, match="has taken over"):
        apply_next(newer[0])
    apply_next(last)
    assert micro_batches(tables) == 2
    assert_undisturbed(tables)


@pytest.mark.release
@pytest.mark.long
def test_tables_in_a_catalog_are_read_and_written_by_name(spark: SparkSession, tables: str) -> None:
    """The catalog's access rules hold only for names."""
    try:
        schema = register(spark, tables, "written")
        for _ in range(2):
            apply_next(start_apply(tables, spark=spark, schema=schema))
        assert_undisturbed(tables)
        spark.sql(f"DROP TABLE {schema}.{GROUPS.name}")
        rows, named = SparkTables(tables).read(spark, GROUPS), SparkTables(tables, schema)
        for access in (
            lambda: named.read(spark, GROUPS),
            lambda: named.opened(spark, GROUPS),
            lambda: named.append(rows, GROUPS),
            lambda: named.replace(rows, GROUPS, "true"),
        ):
            with pytest.raises(AnalysisException, match=r"TABLE_OR_VIEW_NOT_FOUND|MISSING"):
                access()
        assert_undisturbed(tables)
    finally:
        spark.sql("DROP SCHEMA IF EXISTS written CASCADE")


def test_every_table_has_the_rows_of_the_driver_and_nothing_else_is_left(loaded: Path) -> None:
    """The rows that an earlier writer staged are deleted; no file has a hidden checksum."""
    assert_undisturbed(str(loaded))
    assert [folder.name for folder in (loaded / "staged").iterdir()] == [NEWER_WRITER]
    assert list(loaded.rglob("*.crc")) == []
