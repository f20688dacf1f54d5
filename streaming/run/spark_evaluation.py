"""The evaluation of lag and status in Spark's tasks, written with Delta Lake on Spark.

Each task evaluates the groups of some log partitions as the driver process does with the engine
`driver`: it opens the same snapshot, and compares with the kept rows of its groups. The rows to
write stay in the executors. The driver gets one row of numbers from each task.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from coordinator_state.apply.columns import nullable
from streaming.engine.spark.planned_rows import COUNTS, in_struct
from streaming.engine.spark.spark_commits import commit_once
from streaming.engine.spark.spark_tables import SparkTables, configure
from streaming.errors import TablesUnavailable
from streaming.lag.evaluation import Evaluation
from streaming.lag.paces import KnownPaces
from streaming.run.evaluated_rows import (
    DELETES,
    Round,
    evaluated_rows,
    kept_rows,
    merge_schema,
)
from streaming.run.evaluation import Evaluated
from streaming.run.executors import task_slots
from streaming.run.s3 import s3_address
from streaming.run.spark_errors import java_reasons, own_error
from streaming.tables import delta
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_OFFSETS,
    GROUP_STATUS,
    JUDGED_TABLES,
    STATUS_CHANGES,
    Table,
)
from streaming.tables.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WRITTEN: Final = (STATUS_CHANGES, *JUDGED_TABLES)
"""In the order of the writes."""
_COUNTS_SCHEMA: Final = pa.schema(
    [
        *(("groups", pa.int64()), ("processor_s", pa.float64())),
        *((table.name, pa.int64()) for table in _WRITTEN),
    ]
)
"""The numbers of a task: its groups, its processor time, and the rows to write by table."""
_EVALUATED_SCHEMA: Final = pa.schema(
    [
        ("table", pa.string()),
        (COUNTS, pa.struct(list(_COUNTS_SCHEMA))),
        (STATUS_CHANGES.name, pa.struct(list(nullable(STATUS_CHANGES.schema)))),
        *((table.name, pa.struct(list(merge_schema(table)))) for table in JUDGED_TABLES),
    ]
)
_MOST_ROWS_OF_TASK: Final = 500_000
"""Committed offsets. A task holds the rows of its groups in memory."""
_ROWS_OF_BATCH: Final = 10_000

_known: dict[tuple[str, tuple[int, ...]], KnownPaces] = {}
"""What this Python worker has read for its last evaluations, by folder and log partitions.

Each row counts only for the commit or the offset at which it was measured, and rests for an hour.
So a worker without them only reads more."""


@dataclass(slots=True)
class SparkEvaluation:
    """Evaluates the groups of all log partitions in Spark's tasks, and writes the rows there.

    `session` is of its own: the number of a write is a setting of it.
    """

    writer: Writer
    session: SparkSession
    schema: str | None = None
    """The schema of the tables in a catalog, as in a statement of SQL, if they have one."""

    def __post_init__(self) -> None:
        configure(self.session)

    def last_evaluated_at(self, now: datetime) -> pa.ChunkedArray:
        """See `EvaluationTasks.last_evaluated_at`."""
        from pyspark.sql import functions as f

        rows = self._tables.read(self.session, GROUP_STATUS).where(f.col("evaluated_at") <= now)
        return rows.agg(f.max("evaluated_at").alias("at")).toArrow()["at"].drop_null()

    def write(self, reader: TableReader, this_round: Round) -> Evaluated:
        """See `EvaluationTasks.write`."""
        try:
            return self._write(reader, this_round)
        except Exception as error:
            # A newer writer may have deleted what a task reads.
            self.writer.epoch.require_current()
            if isinstance(error, Py4JJavaError):
                reasons = "; caused by ".join(java_reasons(error.java_exception))
                raise TablesUnavailable(f"Spark cannot evaluate: {reasons}") from error
            if isinstance(error, PySparkException):
                text = str(error)
                # A Python trace ends with the error.
                reason = own_error(text) or text.strip().splitlines()[-1]
                raise TablesUnavailable(f"Spark cannot evaluate: {reason}") from error
            raise

    def _write(self, reader: TableReader, this_round: Round) -> Evaluated:
        from pyspark.sql.pandas.types import from_arrow_schema

        sets = self._sets(reader)
        task = EvaluationTask(
            reader.pinned(), replace(this_round, tasks=len(sets)), sets, s3_address()
        )
        rows = self.session.range(0, len(sets), 1, len(sets)).mapInArrow(
            task, from_arrow_schema(_EVALUATED_SCHEMA)
        )
        # All writes have the same rows: if an executor is lost with some of them, the next write
        # fails, and with it the round. The next round evaluates again.
        rows = rows.localCheckpoint()
        counts = _rows_of(rows, COUNTS).toArrow().to_pylist()
        begun_s = time.monotonic()
        for table in _WRITTEN:
            if any(row[table.name] for row in counts):
                self._commit(table, _rows_of(rows, table.name))
        # A write of Spark keeps about one core busy.
        writing_s = time.monotonic() - begun_s
        return Evaluated(
            sum(row["groups"] for row in counts),
            sum(row["processor_s"] for row in counts) + writing_s,
        )

    @property
    def _tables(self) -> SparkTables:
        return SparkTables(self.writer.tables, self.schema)

    def _sets(self, reader: TableReader) -> Sequence[tuple[int, ...]]:
        """The log partitions of each task: about one task for each slot."""
        offsets = delta.counted_rows(delta.open_table(self.writer.tables, GROUP_OFFSETS))
        tasks = max(task_slots(self.session), -(-offsets // _MOST_ROWS_OF_TASK))
        log_partitions = range(reader.log_partitions)
        tasks = min(tasks, len(log_partitions))
        return [tuple(log_partitions[number::tasks]) for number in range(tasks)]

    def _commit(self, table: Table, rows: DataFrame) -> None:
        def append(_session: SparkSession) -> None:
            self._tables.append(rows, table)

        def merge(session: SparkSession) -> None:
            self._merge(session, table, rows)

        is_appended = table is STATUS_CHANGES
        commit_once(
            *(self.writer, self._tables, self.session, table),
            append if is_appended else merge,
            compacts=not is_appended,
        )

    def _merge(self, session: SparkSession, table: Table, rows: DataFrame) -> None:
        values: Any = {name: f"s.{name}" for name in table.schema.names}
        is_same = " AND ".join(f"t.{name} = s.{name}" for name in table.key)
        merging = self._tables.opened(session, table).alias("t").merge(rows.alias("s"), is_same)
        merging = merging.whenMatchedDelete(f"s.{DELETES}").whenMatchedUpdate(set=values)
        merging.whenNotMatchedInsert(f"NOT s.{DELETES}", values).execute()


def _rows_of(rows: DataFrame, name: str) -> DataFrame:
    """The struct of this name of the rows that have it."""
    from pyspark.sql import functions as f

    return rows.where(f.col("table") == name).select(f"{name}.*")


@dataclass(frozen=True, slots=True)
class EvaluationTask:
    """Evaluates sets of log partitions in a Python worker; Spark calls it with their numbers.

    Attributes:
        reader: the pinned snapshot.
        this_round: the facts about all groups.
        sets: the log partitions of each number.
        environment: variables that the worker may lack.
    """

    reader: TableReader
    this_round: Round
    sets: Sequence[tuple[int, ...]]
    environment: Mapping[str, str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows to write (`_EVALUATED_SCHEMA`), and one with the numbers of each set."""
        for name, value in self.environment.items():
            os.environ.setdefault(name, value)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.evaluated(self.sets[number])

    def evaluated(self, log_partitions: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
        """The rows of a set of log partitions."""
        begun_s = time.process_time()
        place = self.reader.tables, log_partitions
        if place not in _known and len(_known) >= len(self.sets):
            # The number of tasks has changed.
            _known.clear()
        evaluation = Evaluation.of(
            self.reader, log_partitions=log_partitions, known=_known.setdefault(place, KnownPaces())
        )
        reader = self.reader.limited_to(log_partitions)
        kept = kept_rows(reader, evaluation.at, self.this_round.kept_until)
        written = evaluated_rows(reader, evaluation, self.this_round, kept).written
        counts = {
            **{table.name: rows.num_rows for table, rows in written.items()},
            "groups": evaluation.statuses.num_rows,
            "processor_s": time.process_time() - begun_s,
        }
        rows_by_name = {COUNTS: pa.Table.from_pylist([counts], _COUNTS_SCHEMA)}
        rows_by_name |= {table.name: rows for table, rows in written.items()}
        for name, rows in rows_by_name.items():
            in_column = in_struct(_EVALUATED_SCHEMA, name, rows.cast(nullable(rows.schema)))
            yield from in_column.to_batches(_ROWS_OF_BATCH)
