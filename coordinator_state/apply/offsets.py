"""Stage 2, offsets: turns commits, tombstones and markers into changes of committed offsets.

All is computed over columns. A property test compares the result with the reference loader.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.collected import Collected, GroupId, distinct_groups
from coordinator_state.apply.columns import Integers, Mask, columns_of, distinct_keys, numbers
from coordinator_state.apply.counts import RecordCounts, by_log_partition
from coordinator_state.apply.outcomes import Outcomes, outcomes_of
from coordinator_state.apply.rows import (
    GUARD_OFFSET,
    HISTORY_SCHEMA,
    OFFSET_CHANGE_SCHEMA,
    OFFSET_KEY,
    PENDING_OFFSET_ROW,
)
from coordinator_state.log.log_rows import LOG_ROW_SCHEMA
from coordinator_state.records.record_types import NO_PRODUCER_ID
from coordinator_state.replay.groups import NO_RECORD_OFFSET
from coordinator_state.replay.offsets import Outcome, Semantics

_COLUMNS = (
    *(name for name in PENDING_OFFSET_ROW.names if name in LOG_ROW_SCHEMA.names),
    "is_tombstone",
)
_OFFSETS = pa.schema(
    [LOG_ROW_SCHEMA.field(name).with_nullable(True) for name in _COLUMNS]
    + [pa.field("is_transactional", pa.bool_())]
)
"""The columns of the offsets of a micro-batch and of pending offsets."""
_REMOVED = np.iinfo(np.int64).max
"""Orders records that a tombstone removed before all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChanges:
    """The effect of a micro-batch on offsets.

    Attributes:
        changes: one row for each changed key (`OFFSET_CHANGE_SCHEMA`).
        history: one row for each record whose outcome the micro-batch decides
            (`HISTORY_SCHEMA`); empty without history.
        pending: all offsets that are pending after the micro-batch (`PENDING_OFFSET_ROW`),
            without their clients.
        resolved_groups: the groups with a transactional commit that the micro-batch resolved.
        counts: the offsets and markers by outcome.
    """

    changes: pa.Table
    history: pa.Table
    pending: pa.Table
    resolved_groups: set[GroupId]
    counts: RecordCounts


def apply_offsets(
    collected: Collected, pending: pa.Table, semantics: Semantics, *, with_history: bool
) -> OffsetChanges:
    """Apply the offsets and markers of a micro-batch to the offsets pending before it."""
    offsets = pa.concat_tables([_offsets(collected.offsets, semantics), _pending(pending)])
    markers = collected.markers
    key_ids = distinct_keys(offsets.select(list(OFFSET_KEY)))
    outcomes = outcomes_of(offsets, key_ids, markers, semantics)
    winners, guards = _winners(offsets, key_ids, outcomes, markers, semantics)
    changes = offsets.take(pa.array(winners)).append_column(GUARD_OFFSET, [guards])
    groups = offsets.select(["log_partition", "group_id"])
    still_pending = offsets.filter(pa.array(outcomes.is_pending))
    return OffsetChanges(
        changes=changes.select(OFFSET_CHANGE_SCHEMA.names).cast(OFFSET_CHANGE_SCHEMA),
        history=_history(offsets, outcomes, markers)
        if with_history
        else HISTORY_SCHEMA.empty_table(),
        pending=columns_of(still_pending, PENDING_OFFSET_ROW),
        resolved_groups=distinct_groups(
            groups.filter(pa.array(numbers(offsets["is_transactional"]) & ~outcomes.is_pending))
        ),
        counts=_counts(offsets, winners, outcomes, markers),
    )


def _offsets(offsets: pa.Table, semantics: Semantics) -> pa.Table:
    """The offsets of a micro-batch. The producer is set to null unless they are transactional."""
    if semantics is Semantics.COORDINATOR:
        is_transactional = pc.not_equal(offsets["producer_id"], NO_PRODUCER_ID)
    else:
        is_transactional = offsets["is_transactional"]
    offsets = offsets.select(list(_COLUMNS))
    for name in ("producer_id", "producer_epoch"):
        index = offsets.schema.get_field_index(name)
        offsets = offsets.set_column(index, name, pc.if_else(is_transactional, offsets[name], None))
    return offsets.append_column("is_transactional", is_transactional).cast(_OFFSETS)


def _pending(pending: pa.Table) -> pa.Table:
    """Pending offsets with the columns `_OFFSETS`."""
    count = pending.num_rows
    pending = pending.drop_columns(["client_id", "client_host"])
    pending = pending.append_column("is_tombstone", pa.repeat(False, count))
    return pending.append_column("is_transactional", pa.repeat(True, count)).cast(_OFFSETS)


def _counts(
    offsets: pa.Table, winners: Integers, outcomes: Outcomes, markers: pa.Table
) -> RecordCounts:
    """Counts of the records. A marker that resolved an offset is applied, others are ignored."""
    is_winner = np.zeros(offsets.num_rows, dtype=np.bool_)
    is_winner[winners] = True
    is_aborted = outcomes.of(Outcome.ABORTED)
    deciding = outcomes.decided_by[outcomes.decided_by >= offsets.num_rows] - offsets.num_rows
    is_applied = np.zeros(markers.num_rows, dtype=np.bool_)
    is_applied[deciding] = True
    return RecordCounts.total(
        [
            RecordCounts(
                applied=by_log_partition(offsets, is_winner),
                superseded=by_log_partition(
                    offsets, ~(is_winner | is_aborted | outcomes.is_pending)
                ),
                ignored=by_log_partition(offsets, is_aborted),
            ),
            RecordCounts(
                applied=by_log_partition(markers, is_applied),
                ignored=by_log_partition(markers, ~is_applied),
            ),
        ]
    )


def _winners(
    offsets: pa.Table,
    key_ids: Integers,
    outcomes: Outcomes,
    markers: pa.Table,
    semantics: Semantics,
) -> tuple[Integers, Integers]:
    """The number of the winning row of each changed key, and the guard offset of the key."""
    record_offsets, is_tombstone = (
        numbers(offsets[name]) for name in ("record_offset", "is_tombstone")
    )
    is_effective = outcomes.of(Outcome.COMMITTED)
    if semantics is Semantics.SCALA:
        is_effective &= ~(is_tombstone & numbers(offsets["is_transactional"]))
    rows = np.flatnonzero(is_effective)
    all_offsets = np.concatenate([record_offsets, numbers(markers["record_offset"])])
    effects = all_offsets[outcomes.decided_by[rows]]
    winners, guards = winners_of(key_ids[rows], record_offsets[rows], effects, is_tombstone[rows])
    return rows[winners], guards


def winners_of(
    key_ids: Integers, record_offsets: Integers, effects: Integers, is_tombstone: Mask
) -> tuple[Integers, Integers]:
    """The winning record of each key, and the greatest record offset of the key.

    The last tombstone removes all records that took effect before it. Of the others, the one with
    the greatest record offset wins. Without any, the tombstone itself does.

    Args:
        key_ids: an integer for the key of each record that took effect.
        record_offsets: the record offset of each record.
        effects: the record offset at which it took effect, its own or that of a marker.
        is_tombstone: whether it is a tombstone.
    """
    in_order = record_offsets
    if is_tombstone.any():
        last_tombstones = np.full(int(key_ids.max()) + 1, NO_RECORD_OFFSET)
        np.maximum.at(last_tombstones, key_ids[is_tombstone], effects[is_tombstone])
        is_removed = effects <= last_tombstones[key_ids]
        in_order = np.where(is_removed, record_offsets - _REMOVED, record_offsets)
    order = np.lexsort((in_order, key_ids))
    ids = key_ids[order]
    is_first = np.append(True, ids[1:] != ids[:-1])[: len(ids)]
    guards = np.maximum.reduceat(record_offsets[order], np.flatnonzero(is_first))
    return order[np.roll(is_first, -1)], guards


def _history(offsets: pa.Table, outcomes: Outcomes, markers: pa.Table) -> pa.Table:
    for name, column in outcomes.columns(offsets, markers).items():
        offsets = offsets.append_column(name, column)
    if outcomes.is_pending.any():
        offsets = offsets.filter(pa.array(~outcomes.is_pending))
    return offsets.select(HISTORY_SCHEMA.names).cast(HISTORY_SCHEMA)
