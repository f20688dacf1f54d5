"""The tables of the internal topics other than `__consumer_offsets`.

Both engines plan and write them in the driver process: the source limits the records of these
topics in a micro-batch, and only the state of their keys is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.collected import newest_timestamps
from coordinator_state.apply.columns import is_below
from coordinator_state.apply.share_partitions import with_topic_names
from coordinator_state.apply.topic_rows import IS_TOMBSTONE
from coordinator_state.apply.topic_rules import StateKey, TopicRules
from coordinator_state.apply.topics import TOPIC_RULES
from coordinator_state.log.log_rows import ROW_KIND_PROGRESS
from streaming.engine.engine import ApplyRules, KnownTopics, Outcome, Outcomes
from streaming.engine.table_writes import TableWrites
from streaming.engine.written_tables import Merge
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import (
    HISTORY_TABLES,
    SHARE_PARTITIONS,
    STATE_TABLES,
    TOPIC_TABLES,
)
from streaming.tables.topic_progress import TopicProgress
from streaming.tables.writer import Writer


@dataclass(slots=True)
class TopicTables:
    """Applies the rows of these topics, and writes their tables with delta-rs."""

    writer: Writer
    rules: ApplyRules
    topics: KnownTopics

    def apply(self, rows: pa.Table, progress: LoadProgress) -> Outcomes:
        """Apply rows of any of these topics (`LOG_ROW_SCHEMA`) to all tables but the progress.

        Raises:
            ConfigurationError: the micro-batch starts after the next offset of a log partition.
            WriterFenced: a newer writer has taken over.
            TablesUnavailable: a table cannot be read or written.
        """
        outcomes = {}
        for name, topic in TOPIC_RULES.items():
            own = rows.filter(pc.equal(rows["log_topic"], name))
            if own.num_rows:
                outcomes[name] = self._apply(topic, own, progress)
        return outcomes

    def _apply(
        self, topic: TopicRules[Any, Any], rows: pa.Table, progress: LoadProgress
    ) -> Outcome:
        topic_progress = progress.others[topic.name]
        is_report = pc.equal(rows["row_kind"], ROW_KIND_PROGRESS)
        reports = rows.filter(is_report).to_pylist()
        topic_progress.require_no_gap(reports)
        records = rows.filter(pc.invert(is_report))
        is_applied = is_below(records, "record_offset", topic_progress.applied_below)
        new = records.filter(pc.invert(is_applied))
        if not new.num_rows:
            return Outcome(reports=reports)
        before = self._before(topic, new, progress)
        applied = topic.apply(new, before, with_history=self.rules.with_history)
        return Outcome(
            reports=reports,
            counts=applied.counts,
            newest_timestamps=newest_timestamps(new),
            rows=self._write(applied.tables, topic_progress, progress),
        )

    def _before(
        self, topic: TopicRules[Any, Any], rows: pa.Table, progress: LoadProgress
    ) -> dict[StateKey, Any]:
        """The state of the keys that rows are about."""
        table = STATE_TABLES[topic.name]
        _, name_column, *_ = topic.key
        names = pa.array(topic.read_names(rows), pa.string())
        stored_rows = self.writer.rows(
            table,
            progress.table_versions[table.name],
            pc.field("log_partition").isin(pc.unique(rows["log_partition"]))
            & pc.field(name_column).isin(names),
        )
        if table is SHARE_PARTITIONS:
            # The cluster does not know the names of deleted topics any more.
            named = stored_rows.filter(pc.is_valid(stored_rows["topic"])).select(
                ["topic_id", "topic"]
            )
            self.topics.names.update(dict(zip(*named.to_pydict().values(), strict=True)))
        return topic.read_states(stored_rows)

    def _write(
        self, tables: Mapping[str, pa.Table], topic_progress: TopicProgress, progress: LoadProgress
    ) -> dict[str, int]:
        """Write the rows of each table; return their numbers."""
        writes = TableWrites(self.writer, progress)
        for table in TOPIC_TABLES[topic_progress.topic]:
            rows = tables[table.name]
            if table is SHARE_PARTITIONS:
                names = self.topics.naming(set(rows["topic_id"].to_pylist()))
                rows = with_topic_names(rows, names)
            if table in HISTORY_TABLES[topic_progress.topic]:
                # A reload reads records again whose events the table has.
                is_known = is_below(rows, "record_offset", topic_progress.history_below)
                rows = rows.filter(pc.invert(is_known))
            if table is STATE_TABLES[topic_progress.topic]:
                writes.merge(table, rows, Merge("record_offset", IS_TOMBSTONE))
            else:
                writes.append(table, rows)
        return writes.rows
