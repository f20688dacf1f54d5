"""The engine `driver`: the rows of a micro-batch and the state before it are in this process.

The rows of a log partition in a reload are held in memory until its log is read to the end
(`reloading`). They then replace those of the tables, in the same single commit per table.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.collected import collect
from coordinator_state.apply.group_rows import unnamed_topics
from coordinator_state.apply.log_partitions import Applied, apply_collected
from coordinator_state.log.log_rows import unpack
from streaming.engine.driver.reloading import ReadyRows, Reloading
from streaming.engine.driver.tables_state import TablesState
from streaming.engine.engine import ApplyRules, KnownTopics, Outcome, Outcomes
from streaming.engine.table_writes import TableWrites
from streaming.engine.topic_tables import TopicTables
from streaming.tables.load_progress import LoadProgress
from streaming.tables.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

_LOGGED_WARNINGS: Final = 10
"""Of a micro-batch: a client may write any number of such records."""


@dataclass(slots=True)
class DriverEngine:
    """Plans micro-batches in this process, and writes the tables one after the other."""

    writer: Writer
    rules: ApplyRules
    _state: TablesState | None = None
    _topics: KnownTopics = field(init=False)
    _reloading: Reloading = field(init=False)
    _others: TopicTables = field(init=False)

    def __post_init__(self) -> None:
        self._topics = KnownTopics(self.rules.topic_names)
        self._reloading = Reloading(self.rules.sampled_resolution)
        self._others = TopicTables(self.writer, self.rules, self._topics)

    def rows_of(self, batch: DataFrame) -> pa.Table:
        """The rows (`LOG_ROW_SCHEMA`) of a micro-batch that a query hands over."""
        return unpack(batch.toArrow())

    def apply(self, rows: pa.Table, progress: LoadProgress) -> Outcomes:
        """Apply rows (`LOG_ROW_SCHEMA`); see `Engine.apply`."""
        outcomes: Outcomes = {}
        if rows["log_topic"].null_count < rows.num_rows:
            is_of_offsets = pc.is_null(rows["log_topic"])
            outcomes = self._others.apply(rows.filter(pc.invert(is_of_offsets)), progress)
            rows = rows.filter(is_of_offsets)
        is_first = self._state is None
        state = self._begin(progress) if self._state is None else self._state
        ready = self._reloading.ready_rows(rows, progress)
        state.forget(ready.replaced)
        with _garbage_collection_paused():
            applied = self._applied(ready, state)
        writes = TableWrites(self.writer, progress, ready.replaced)
        is_pending_changed = is_first or not applied.pending_offsets.equals(state.pending)
        writes.write(applied, ready.from_offsets, is_pending_changed=is_pending_changed)
        state.update(applied)
        outcomes[progress.topic] = Outcome(
            reports=ready.reports,
            replaced=ready.replaced.keys(),
            counts=applied.counts,
            newest_timestamps=applied.newest_timestamps,
            rows=writes.rows,
        )
        return outcomes

    def _begin(self, progress: LoadProgress) -> TablesState:
        """Read the state of the snapshot where the query continues."""
        self._state = TablesState.read(self.writer.tables, progress.table_versions, self.rules)
        self._topics.unnamed = unnamed_topics(self._state.groups.values())
        return self._state

    def _applied(self, ready: ReadyRows, state: TablesState) -> Applied:
        """The changes that a micro-batch makes to the tables."""
        collected = collect(ready.rows)
        applied = apply_collected(
            collected,
            state.before(collected, ready.replaced),
            self.rules.context(self._topics.naming(collected.topic_ids)),
        )
        for warning in applied.warnings[:_LOGGED_WARNINGS]:
            logger.info(
                "log partition %(log_partition)s: a broker would not load record offset "
                "%(record_offset)s: %(reason)s",
                {
                    "log_partition": warning.log_partition,
                    "record_offset": warning.record_offset,
                    "reason": warning.reason,
                },
            )
        others = len(applied.warnings) - _LOGGED_WARNINGS
        if others > 0:
            logger.info(
                "a broker would not load %(others)s more records of this micro-batch; their groups "
                "have a replay_warning",
                {"others": f"{others:,}"},
            )
        return applied


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Pause Python's search for reference cycles.

    The changes of a micro-batch have none, and they are many objects that live for long: the search
    takes a third of the time of a micro-batch of group records.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
