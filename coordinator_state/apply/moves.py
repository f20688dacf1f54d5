"""Stage 3, moves: finds offset changes that may be events.

Most commits only move an offset forward, which is not an event. Vectorized filters find the keys
that may have an event: keys with a tombstone, with a lower committed offset than before, with
transactions that ended out of order, or of a group that may have no members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.collected import GroupId, distinct_groups
from coordinator_state.apply.columns import Mask, distinct_keys
from coordinator_state.apply.committed import values_before
from coordinator_state.apply.rows import OFFSET_KEY
from coordinator_state.replay.group_replay import GroupState
from coordinator_state.replay.groups import Group
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, Outcome, Semantics

Row = Mapping[str, Any]
_NOTHING = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetMove:
    """A commit or tombstone that took effect at `record_offset`.

    `record_offset` and `timestamp_ms` are those of the marker for a transactional commit. `before`
    is the committed offset before the micro-batch. `after` is None for a tombstone.
    """

    group: GroupId
    key: OffsetKey
    record_offset: int
    timestamp_ms: int | None
    before: CommittedOffset | None
    after: CommittedOffset | None


def offset_moves(
    history: pa.Table,
    committed: pa.Table,
    groups: Mapping[GroupId, GroupState],
    with_records: set[GroupId],
    semantics: Semantics,
) -> list[OffsetMove]:
    """All moves of the keys that may have an event, ordered by key, then by `record_offset`.

    Args:
        history: the history rows of the micro-batch (`HISTORY_SCHEMA`).
        committed: the committed offsets before the micro-batch (`COMMITTED_SCHEMA`).
        groups: the groups before the micro-batch.
        with_records: groups with a group record in the micro-batch. Their members may have left.
        semantics: the loader's rules.
    """
    is_committed = pc.equal(history["outcome"], Outcome.COMMITTED.value)
    if semantics is Semantics.SCALA:
        # A transactional tombstone does not change the committed offset.
        is_transactional = pc.is_valid(history["producer_id"])
        is_committed = pc.and_not(is_committed, pc.and_(history["is_tombstone"], is_transactional))
    rows = history.filter(is_committed)
    if not rows.num_rows:
        return []
    key_ids = distinct_keys(rows.select(list(OFFSET_KEY)))
    record_offsets = rows["record_offset"].to_numpy()
    order = np.lexsort((record_offsets, rows["outcome_record_offset"].to_numpy(), key_ids))
    rows, key_ids, record_offsets = (
        rows.take(pa.array(order)),
        key_ids[order],
        record_offsets[order],
    )
    is_first = np.append(True, key_ids[1:] != key_ids[:-1])
    key_numbers = np.cumsum(is_first) - 1
    stored = values_before(committed, rows.filter(pa.array(is_first)))

    def previous(values: Any, name: str) -> Any:
        """The value of the previous row of the same key, or the stored one for its first row."""
        return np.where(is_first, _filled(stored[name])[key_numbers], np.roll(values, 1))

    offsets = _filled(rows["committed_offset"])
    previous_offsets = previous(offsets, "committed_offset")
    may_be_event = offsets < previous_offsets
    may_be_event |= record_offsets < previous(record_offsets, "record_offset")
    may_be_event |= (offsets != previous_offsets) & _may_be_empty(rows, groups, with_records)
    selected = np.flatnonzero(np.isin(key_ids, key_ids[may_be_event]))
    return [
        _move(row, before)
        for row, before in zip(
            rows.take(pa.array(selected)).to_pylist(),
            stored.take(pa.array(key_numbers[selected])).to_pylist(),
            strict=True,
        )
    ]


def _move(row: Row, before: Row) -> OffsetMove:
    return OffsetMove(
        group=(row["log_partition"], row["group_id"]),
        key=OffsetKey(row["group_id"], row["topic"], row["partition"]),
        record_offset=row["outcome_record_offset"],
        timestamp_ms=row["outcome_timestamp_ms"],
        before=None if before["record_offset"] is None else CommittedOffset.from_row(before),
        after=None if row["is_tombstone"] else CommittedOffset.from_row(row),
    )


def _may_be_empty(
    rows: pa.Table, groups: Mapping[GroupId, GroupState], with_records: set[GroupId]
) -> Mask:
    """The rows of groups that have no members, or may have had none during the micro-batch."""
    names = [
        group[1]
        for group in distinct_groups(rows)
        if group in with_records or _has_no_members(groups.get(group))
    ]
    mask: Mask = pc.is_in(rows["group_id"], pa.array(names, pa.string())).to_numpy()
    return mask


def _has_no_members(state: GroupState | None) -> bool:
    if state is None or (isinstance(state, Group) and state.is_simple):
        return False
    return not state.members


def _filled(column: pa.ChunkedArray) -> Any:
    return pc.fill_null(column, _NOTHING).to_numpy()
