"""Computes all changes of one micro-batch: a pure function of its rows and the state before them.

The stages are: collect the rows by kind, find the changes of offsets, find the moves that may be
events, replay the groups, and turn the changes into rows. Log partitions are independent: applying
several at once gives the same changes as applying each alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from coordinator_state.apply.collected import (
    Collected,
    collect,
    every_record_row,
    record_rows,
)
from coordinator_state.apply.committed import committed_after
from coordinator_state.apply.counts import RecordCounts, by_log_partition
from coordinator_state.apply.event_rows import event_rows, hung_transactions
from coordinator_state.apply.group_rows import described_groups, group_rows, member_rows
from coordinator_state.apply.groups import GroupChanges, ReplayWarning, apply_to_groups
from coordinator_state.apply.moves import offset_moves
from coordinator_state.apply.offsets import OffsetChanges, apply_offsets
from coordinator_state.apply.pending_clients import with_clients
from coordinator_state.apply.rows import EVENT_SCHEMA, QUARANTINE_ROW
from coordinator_state.apply.state import ApplyContext, ApplyState
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.replay.offsets import Semantics


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The effect of a micro-batch on each table, with times in milliseconds.

    `group_offsets`, `groups` and `group_members` are changes (`coordinator_state.apply.rows`):
    rows to insert, update or delete. `coordinator_records`, `offset_commits`, `group_events`,
    `group_records` and `quarantine` are new rows. `pending_offsets` has all rows after the
    micro-batch. `committed` has the committed offsets after it (`COMMITTED_SCHEMA`); without
    history and under `coordinator` semantics it is that of the state before.
    `newest_timestamps` has the newest record timestamp of each log partition.
    """

    group_offsets: pa.Table
    coordinator_records: pa.Table
    groups: pa.Table
    group_members: pa.Table
    offset_commits: pa.Table
    group_events: pa.Table
    group_records: pa.Table
    quarantine: pa.Table
    pending_offsets: pa.Table
    committed: pa.Table
    group_changes: GroupChanges
    counts: RecordCounts
    newest_timestamps: Mapping[int, datetime]

    @property
    def warnings(self) -> Sequence[ReplayWarning]:
        """Records that a broker would refuse to load."""
        return self.group_changes.warnings


def apply_log_partitions(rows: pa.Table, state: ApplyState, context: ApplyContext) -> Applied:
    """Apply one micro-batch of any set of log partitions.

    Args:
        rows: log rows (`LOG_ROW_SCHEMA`) in any order, without rows that the state before has
            already. Rows of kind `progress` are ignored.
        state: the state before the micro-batch.
        context: the rules of the micro-batch.
    """
    return apply_collected(collect(rows), state, context)


def apply_collected(collected: Collected, state: ApplyState, context: ApplyContext) -> Applied:
    """Apply collected rows.

    For callers that resolve `Collected.topic_ids` to names between `collect` and this.
    """
    offsets = apply_offsets(
        collected, state.pending, context.semantics, with_history=context.with_history
    )
    needs_committed = context.with_history or context.semantics is Semantics.SCALA
    committed = (
        committed_after(state.committed, offsets.changes) if needs_committed else state.committed
    )
    moves = offset_moves(
        offsets.history,
        state.committed,
        state.groups,
        with_records=set(collected.records_of_groups),
        semantics=context.semantics,
    )
    groups = apply_to_groups(collected, offsets, committed, moves, state, context)
    described = described_groups(groups.changes, context.topic_names)
    pending = with_clients(offsets.pending, state.pending, groups.clients)
    quarantine = _in_topic(collected.undecodable.select(QUARANTINE_ROW.names))
    return Applied(
        group_offsets=offsets.changes,
        coordinator_records=record_rows(collected.group_records),
        groups=group_rows(groups.changes, described),
        group_members=member_rows(groups.changes, described, state.groups),
        offset_commits=offsets.history,
        group_events=_events(groups, offsets, context),
        group_records=every_record_row(collected.group_records if context.with_history else ()),
        quarantine=quarantine,
        pending_offsets=pending,
        committed=committed,
        group_changes=groups,
        counts=RecordCounts.total(
            [
                offsets.counts,
                collected.counts,
                RecordCounts(
                    pending=by_log_partition(pending),
                    quarantined=by_log_partition(quarantine),
                ),
            ]
        ),
        newest_timestamps=collected.newest_timestamps,
    )


def _in_topic(quarantine: pa.Table) -> pa.Table:
    """Rows of `quarantine`, which name every topic."""
    place = quarantine.schema.get_field_index("log_topic")
    topics = pa.repeat(pa.scalar(OFFSETS_TOPIC), quarantine.num_rows)
    return quarantine.set_column(place, quarantine.schema.field(place), topics)


def _events(groups: GroupChanges, offsets: OffsetChanges, context: ApplyContext) -> pa.Table:
    if not context.with_history:
        return EVENT_SCHEMA.empty_table()
    events = [*hung_transactions(offsets.history), *groups.events]
    return event_rows(events, context.topic_names)
