"""Stage 2, offsets: turns commits, tombstones and markers into changes of committed offsets.

The outcomes are computed over columns (`outcomes`). The record with the greatest record offset
among the committed ones of a key wins. Keys with both a transaction and a tombstone in the
micro-batch are replayed record by record (`exact_offsets`). Both ways give the state of the
reference loader; a property test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.collected import Collected, GroupId, distinct_groups
from coordinator_state.apply.columns import Integers, columns_of, distinct_keys
from coordinator_state.apply.counts import RecordCounts, by_log_partition
from coordinator_state.apply.exact_offsets import ExactOffsets, MarkerId, replay_exactly
from coordinator_state.apply.outcomes import Mask, Outcomes, outcomes_of
from coordinator_state.apply.rows import (
    GUARD_OFFSET,
    HISTORY_SCHEMA,
    OFFSET_CHANGE_SCHEMA,
    OFFSET_KEY,
    PENDING_OFFSET_ROW,
)
from coordinator_state.log.log_rows import LOG_ROW_SCHEMA
from coordinator_state.records.record_types import NO_PRODUCER_ID
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
    key_ids = distinct_keys(offsets.select(list(OFFSET_KEY)))
    is_transactional = _numpy(offsets["is_transactional"])
    is_exact = np.isin(
        key_ids, np.intersect1d(key_ids[is_transactional], key_ids[_numpy(offsets["is_tombstone"])])
    )
    is_of_pending = np.arange(offsets.num_rows) >= collected.offsets.num_rows
    exact = replay_exactly(
        offsets.filter(pa.array(is_exact & ~is_of_pending)),
        offsets.filter(pa.array(is_exact & is_of_pending)),
        collected.markers,
        semantics,
    )
    if is_exact.any():
        offsets = offsets.filter(pa.array(~is_exact))
        key_ids, is_transactional = key_ids[~is_exact], is_transactional[~is_exact]
    outcomes = outcomes_of(offsets, key_ids, is_transactional, collected.markers, semantics)
    return _changes(offsets, key_ids, outcomes, collected.markers, exact, with_history)


def _changes(
    offsets: pa.Table,
    key_ids: Integers,
    outcomes: Outcomes,
    markers: pa.Table,
    exact: ExactOffsets,
    with_history: bool,
) -> OffsetChanges:
    is_committed, is_pending = outcomes.of(Outcome.COMMITTED), outcomes.is_pending
    winners = offsets.take(_last_of_each_key(offsets, key_ids, is_committed))
    history = [HISTORY_SCHEMA.empty_table()]
    if with_history:
        history += [_history(offsets, outcomes, markers), exact.history]
    is_transactional = _numpy(offsets["is_transactional"])
    groups = offsets.select(["log_partition", "group_id"])
    resolved = groups.filter(pa.array(is_transactional & ~is_pending))
    still_pending = columns_of(offsets.filter(pa.array(is_pending)), PENDING_OFFSET_ROW)
    return OffsetChanges(
        changes=pa.concat_tables([_as_changes(winners), exact.changes]),
        history=pa.concat_tables(history),
        pending=pa.concat_tables([exact.pending, still_pending]),
        resolved_groups=exact.resolved_groups | distinct_groups(resolved),
        counts=RecordCounts.total(
            [
                exact.counts,
                _counts(by_log_partition(offsets, is_committed), by_log_partition(winners)),
                RecordCounts(
                    ignored=by_log_partition(offsets, outcomes.of(Outcome.ABORTED)),
                    superseded=by_log_partition(offsets, outcomes.of(Outcome.SUPERSEDED)),
                ),
                _marker_counts(markers, outcomes, offsets.num_rows, exact.applied_markers),
            ]
        ),
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


def _counts(committed: Mapping[int, int], applied: Mapping[int, int]) -> RecordCounts:
    superseded = {p: count - applied.get(p, 0) for p, count in committed.items()}
    return RecordCounts(applied=applied, superseded=superseded)


def _marker_counts(
    markers: pa.Table, outcomes: Outcomes, offset_count: int, applied_exactly: set[MarkerId]
) -> RecordCounts:
    """Counts of the markers. A marker that resolved an offset is applied, others are ignored."""
    is_applied = np.zeros(markers.num_rows, dtype=np.bool_)
    deciding = outcomes.decided_by[outcomes.decided_by >= offset_count]
    is_applied[deciding - offset_count] = True
    if applied_exactly:
        marker_ids = zip(
            markers["log_partition"].to_pylist(), markers["record_offset"].to_pylist(), strict=True
        )
        is_applied |= np.array([marker_id in applied_exactly for marker_id in marker_ids])
    return RecordCounts(
        applied=by_log_partition(markers, is_applied),
        ignored=by_log_partition(markers, ~is_applied),
    )


def _last_of_each_key(offsets: pa.Table, key_ids: Integers, is_committed: Mask) -> pa.Array:
    """The row number of the committed row with the greatest record offset, for each key."""
    rows = np.flatnonzero(is_committed)
    ids = key_ids[rows]
    order = np.lexsort((_numpy(offsets["record_offset"])[rows], ids))
    is_last = np.ones(len(order), dtype=bool)
    is_last[:-1] = ids[order[1:]] != ids[order[:-1]]
    return pa.array(rows[order[is_last]])


def _as_changes(winners: pa.Table) -> pa.Table:
    changes = winners.append_column(GUARD_OFFSET, winners["record_offset"])
    return changes.select(OFFSET_CHANGE_SCHEMA.names).cast(OFFSET_CHANGE_SCHEMA)


def _history(offsets: pa.Table, outcomes: Outcomes, markers: pa.Table) -> pa.Table:
    for name, column in outcomes.columns(offsets, markers).items():
        offsets = offsets.append_column(name, column)
    if outcomes.is_pending.any():
        offsets = offsets.filter(pa.array(~outcomes.is_pending))
    return offsets.select(HISTORY_SCHEMA.names).cast(HISTORY_SCHEMA)


def _numpy(column: pa.ChunkedArray) -> Integers:
    values: Integers = column.combine_chunks().to_numpy(zero_copy_only=False)
    return values
