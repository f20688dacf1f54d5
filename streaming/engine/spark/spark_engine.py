"""The engine `spark`: the executors plan a micro-batch, and Delta Lake on Spark writes it.

1. The rows of the source are keyed by log partition and staged as files.
2. Tasks plan the log partitions, each beside the stored rows of the groups that it touches. The
   planned rows of all tables are staged as files.
3. The tables are written from the staged rows, several at the same time.

Rows of the other internal topics are planned in this process (`streaming.engine.topic_tables`).

The driver sees one row for each log partition, with numbers. The staged rows of a reload are kept
until its log is read to the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator_state.apply.counts import RecordCounts
from coordinator_state.log.log_rows import unpack
from coordinator_state.replay.offsets import Semantics
from streaming.engine.engine import ApplyRules, KnownTopics, Outcome, Outcomes
from streaming.engine.spark.planned_rows import (
    COUNTED,
    COUNTS,
    KEYED_SCHEMA,
    PLANNED_SCHEMA,
)
from streaming.engine.spark.planning import BucketPlan, key_by_log_partition
from streaming.engine.spark.reloads import ReadyFrame, Reloads
from streaming.engine.spark.spark_tables import SparkTables, configure
from streaming.engine.spark.spark_writes import SparkWrites
from streaming.engine.spark.staging import StagedRows, StagingFolder
from streaming.engine.spark.stored_state import stored_state
from streaming.engine.topic_tables import TopicTables
from streaming.engine.written_tables import WRITTEN_TABLES
from streaming.errors import WriterFenced
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import PENDING_OFFSETS, Table
from streaming.tables.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Counts = Sequence[Mapping[str, Any]]
"""Rows of `COUNTS_SCHEMA`."""

_MOST_BROADCAST_GROUPS = 50_000
"""Names of as many groups are sent to every executor."""
_SIDE_BY_SIDE = 4
"""Writes at the same time. A small one waits for Spark's planning, not for the processors."""


@dataclass(slots=True)
class SparkEngine:
    """Plans micro-batches in Spark's Python workers, and writes them with Delta Lake on Spark.

    `schema` is the schema of the tables in a catalog, as in a statement of SQL, if they have one.
    """

    writer: Writer
    rules: ApplyRules
    session: SparkSession
    schema: str | None = None
    _topics: KnownTopics = field(init=False)
    _staging: StagingFolder = field(init=False)
    _reloads: Reloads = field(init=False)
    _sessions: Mapping[str, SparkSession] = field(init=False)
    _others: TopicTables = field(init=False)

    def __post_init__(self) -> None:
        self._topics = KnownTopics(self.rules.topic_names)
        self._staging = StagingFolder(self.session, self.writer)
        self._staging.delete_earlier()
        self._sessions = {table.name: self.session.newSession() for table in WRITTEN_TABLES}
        for session in self._sessions.values():
            configure(session)
        self._reloads = Reloads(self._staging)
        self._others = TopicTables(self.writer, self.rules, self._topics)

    def rows_of(self, batch: DataFrame) -> DataFrame:
        """The micro-batch itself (`PACKED_ROW_SCHEMA`)."""
        return batch

    def apply(self, rows: DataFrame, progress: LoadProgress) -> Outcomes:
        """Apply packed rows (`PACKED_ROW_SCHEMA`); see `Engine.apply`."""
        configure(rows.sparkSession)
        keyed_folder, planned_folder = self._staging.new(), self._staging.new()
        try:
            keyed = self._keyed(rows, keyed_folder)
            outcomes = self._apply_others(rows.sparkSession, keyed, progress)
            ready = self._reloads.ready_rows(rows.sparkSession, keyed_folder, keyed, progress)
            planned, counts = self._planned(ready, progress, planned_folder)
            versions = self._written(ready, counts, planned)
        except Exception:
            # A newer writer deletes the staged rows of this one.
            self.writer.epoch.require_current()
            raise
        finally:
            self._staging.delete(planned_folder)
            if not self._reloads.needs(keyed_folder):
                self._staging.delete(keyed_folder)
        self._reloads.delete_unneeded()
        progress.table_versions.update(versions)
        rows_by_table = {t.name: sum(row[t.name] for row in counts) for t in WRITTEN_TABLES}
        outcomes[progress.topic] = Outcome(
            reports=ready.reports,
            replaced=ready.replaced.keys(),
            counts=RecordCounts(
                **{name: {row["log_partition"]: row[name] for row in counts} for name in COUNTED}
            ),
            newest_timestamps={
                row["log_partition"]: row["newest_timestamp"]
                for row in counts
                if row["newest_timestamp"] is not None
            },
            rows={name: rows for name, rows in rows_by_table.items() if rows},
        )
        return outcomes

    @property
    def _tables(self) -> SparkTables:
        return SparkTables(self.writer.tables, self.schema)

    def _keyed(self, rows: DataFrame, folder: str) -> StagedRows:
        """Stage the rows of the source by log partition (`KEYED_SCHEMA`)."""
        from pyspark.sql.pandas.types import from_arrow_schema

        keyed = rows.mapInArrow(key_by_log_partition, from_arrow_schema(KEYED_SCHEMA))
        return self._staging.write(keyed, folder, KEYED_SCHEMA)

    def _apply_others(
        self, session: SparkSession, keyed: StagedRows, progress: LoadProgress
    ) -> Outcomes:
        """Apply the rows of the other internal topics, which the source limits."""
        if not progress.others:
            return {}
        packed = keyed.read(session).where("log_topic IS NOT NULL").select("rows").toArrow()
        return self._others.apply(unpack(packed), progress)

    def _planned(
        self, ready: ReadyFrame, progress: LoadProgress, folder: str
    ) -> tuple[StagedRows, Counts]:
        """Plan the changes of all tables, and stage them; return them and their numbers."""
        planned, counts = self._plan(ready, progress, folder)
        unnamed = {topic_id for row in counts for topic_id in row["unnamed_topic_ids"]}
        before = len(self._topics.names)
        if len(self._topics.naming(unnamed)) > before:
            # The plan named topics by these ids before anyone had asked for their names.
            self._staging.delete(folder)
            planned, counts = self._plan(ready, progress, folder)
        return planned, counts

    def _plan(
        self, ready: ReadyFrame, progress: LoadProgress, folder: str
    ) -> tuple[StagedRows, Counts]:
        from pyspark.sql import functions as f
        from pyspark.sql.pandas.types import from_arrow_schema

        rows = ready.rows
        session = rows.sparkSession
        plan = BucketPlan(
            context=self.rules.context(dict(self._topics.names)),
            applied_below=progress.applied_below,
            replaced=ready.replaced,
        )
        pending = sum(
            row.records_pending for p, row in progress.rows.items() if p in ready.log_partitions
        )
        state = stored_state(
            session,
            self._tables,
            [p for p in ready.log_partitions if p not in ready.replaced],
            ready.touched,
            with_committed=self.rules.with_history or self.rules.semantics is Semantics.SCALA,
            with_pending=pending > 0,
            broadcasts=ready.touched_at_most + pending <= _MOST_BROADCAST_GROUPS,
        )
        places = f.array(*map(f.lit, sorted(ready.log_partitions)))
        # By place: log partitions of one broker may all be multiples of the number of buckets.
        bucket = f.array_position(places, f.col("log_partition")) % ready.buckets
        planned = (
            rows.groupBy(bucket)
            .cogroup(state.groupBy(bucket))
            .applyInArrow(
                lambda keyed, stored: plan.planned(keyed, stored), from_arrow_schema(PLANNED_SCHEMA)
            )
        )
        staged = self._staging.write(planned, folder, PLANNED_SCHEMA, partitioned_by="table")
        counts: Counts = staged.read(session, COUNTS).toArrow().to_pylist()
        if {row["log_partition"] for row in counts} != set(ready.log_partitions):
            raise RuntimeError(f"the planned rows in {folder} are not those of all log partitions")
        return staged, counts

    def _written(self, ready: ReadyFrame, counts: Counts, planned: StagedRows) -> dict[str, int]:
        """Write the planned rows, several tables at the same time; return the new versions."""
        writes = SparkWrites(
            writer=self.writer,
            tables=self._tables,
            sessions=self._sessions,
            log_partitions=ready.log_partitions,
            replaced=ready.replaced,
            replaced_from={
                report["log_partition"]: report["from_offset"]
                for report in ready.reports
                if report["log_partition"] in ready.replaced
            },
        )
        pending = [row["log_partition"] for row in counts if row["is_pending_changed"]]
        pending = sorted({*pending, *ready.replaced})

        def write(table: Table) -> int | None:
            rows = partial(planned.read, name=table.name)
            version = None
            if table is PENDING_OFFSETS:
                if pending:
                    version = writes.replace_pending(pending, rows)
            elif ready.replaced or any(row[table.name] for row in counts):
                version = writes.write(table, rows)
            self.writer.on_table(table.name)
            return version

        with ThreadPoolExecutor(_SIDE_BY_SIDE, "table-write") as pool:
            futures = {table: pool.submit(write, table) for table in WRITTEN_TABLES}
        errors = [error for future in futures.values() if (error := future.exception()) is not None]
        for error in sorted(errors, key=lambda error: not isinstance(error, WriterFenced)):
            raise error
        versions = {table.name: future.result() for table, future in futures.items()}
        return {name: version for name, version in versions.items() if version is not None}
