"""Replays keys with both transactions and tombstones record by record, in log order.

This is the slower of the two ways to apply offsets, and it is exact for every key. The rules are
those of `coordinator_state.replay.offsets.OffsetReplay`. This module collects the changes, the
history and the counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.collected import GroupId
from coordinator_state.apply.counts import RecordCounts
from coordinator_state.apply.rows import (
    GUARD_OFFSET,
    HISTORY_SCHEMA,
    OFFSET_CHANGE_SCHEMA,
    PENDING_OFFSET_ROW,
)
from coordinator_state.records.record_types import NO_PRODUCER_ID
from coordinator_state.replay.offsets import (
    CommittedOffset,
    OffsetKey,
    OffsetReplay,
    Outcome,
    Resolved,
    Semantics,
)

Row = Mapping[str, Any]
MarkerId = tuple[int, int]
"""Log partition and record offset of a marker."""

_VALUES = tuple(CommittedOffset.__slots__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactOffsets:
    """The effect of the records that were replayed one by one.

    Attributes:
        changes: one row for each changed key (`OFFSET_CHANGE_SCHEMA`).
        history: one row for each record whose outcome is decided.
        pending: the offsets that are pending afterwards (`PENDING_OFFSET_ROW`).
        resolved_groups: the groups with a transactional commit that was resolved.
        applied_markers: the markers that ended a transaction.
        counts: the offsets by outcome, without markers.
    """

    changes: pa.Table
    history: pa.Table
    pending: pa.Table
    resolved_groups: set[GroupId]
    applied_markers: set[MarkerId]
    counts: RecordCounts


@dataclass(frozen=True, slots=True)
class _Record:
    """A log record."""

    log_partition: int
    record_offset: int
    timestamp_ms: int | None
    producer_id: int | None

    @classmethod
    def of(cls, row: Row, **more: Any) -> Any:
        return cls(
            row["log_partition"],
            row["record_offset"],
            row["record_timestamp_ms"],
            row["producer_id"],
            **more,
        )


@dataclass(frozen=True, slots=True)
class _Marker(_Record):
    control_type: int


@dataclass(frozen=True, slots=True)
class _Offset(_Record):
    """A commit or a tombstone."""

    key: OffsetKey
    is_transactional: bool
    is_tombstone: bool
    value: CommittedOffset


def replay_exactly(
    offsets: pa.Table, pending: pa.Table, markers: pa.Table, semantics: Semantics
) -> ExactOffsets:
    """Replay the records of the given offsets, pending offsets and markers.

    Args:
        offsets: all commits and tombstones of a set of keys.
        pending: the pending offsets of these keys before the micro-batch, with the same columns.
        markers: all markers of the micro-batch.
        semantics: the loader's rules.
    """
    records: dict[int, list[_Offset | _Marker]] = defaultdict(list)
    replays: dict[int, _LogPartitionReplay] = {}
    for record in map(_offset, offsets.to_pylist()):
        records[record.log_partition].append(record)
    for log_partition in records:
        replays[log_partition] = _LogPartitionReplay(log_partition, OffsetReplay(semantics))
    for record in map(_offset, pending.to_pylist()):
        if record.log_partition not in replays:
            replays[record.log_partition] = _LogPartitionReplay(
                record.log_partition, OffsetReplay(semantics)
            )
        replays[record.log_partition].add_pending(record)
    is_own = pc.is_in(markers["log_partition"], pa.array(replays, pa.int32()))
    for row in markers.filter(is_own).to_pylist():
        records[row["log_partition"]].append(_Marker.of(row, control_type=row["control_type"]))
    for log_partition, replay in sorted(replays.items()):
        for log_record in sorted(
            records[log_partition], key=lambda log_record: log_record.record_offset
        ):
            replay.replay(log_record)
    return _combined(replays.values())


def _combined(replays: Iterable[_LogPartitionReplay]) -> ExactOffsets:
    parts = list(replays)

    def rows(row_lists: Iterable[Iterable[Row]], schema: pa.Schema) -> pa.Table:
        return pa.Table.from_pylist([row for part in row_lists for row in part], schema=schema)

    return ExactOffsets(
        changes=rows((part.changes() for part in parts), OFFSET_CHANGE_SCHEMA),
        history=rows((part.history for part in parts), HISTORY_SCHEMA),
        pending=rows((part.pending() for part in parts), PENDING_OFFSET_ROW),
        resolved_groups={(p.log_partition, group) for p in parts for group in p.resolved_groups},
        applied_markers={(p.log_partition, at) for p in parts for at in p.applied_markers},
        counts=RecordCounts(
            applied={part.log_partition: part.counts["applied"] for part in parts},
            superseded={part.log_partition: part.counts["superseded"] for part in parts},
            ignored={part.log_partition: part.counts["ignored"] for part in parts},
        ),
    )


@dataclass(slots=True)
class _LogPartitionReplay:
    """The replay of a set of keys in one log partition."""

    log_partition: int
    offsets: OffsetReplay
    history: list[Row] = field(default_factory=list)
    resolved_groups: set[str] = field(default_factory=set)
    applied_markers: set[int] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    _guards: dict[OffsetKey, int] = field(default_factory=dict)
    _timestamps_ms: dict[int, int | None] = field(default_factory=dict)

    def add_pending(self, pending: _Offset) -> None:
        """Add an offset that is pending before the micro-batch."""
        producer_id = NO_PRODUCER_ID if pending.producer_id is None else pending.producer_id
        self.offsets.pending.setdefault(producer_id, {})[pending.key] = pending.value
        self._timestamps_ms[pending.record_offset] = pending.timestamp_ms

    def replay(self, record: _Offset | _Marker) -> None:
        """Replay the next record."""
        self._timestamps_ms[record.record_offset] = record.timestamp_ms
        match record:
            case _Marker():
                self._replay_marker(record)
            case _Offset(is_tombstone=True):
                self._replay_tombstone(record)
            case _Offset():
                self._replay_commit(record)

    def changes(self) -> list[Row]:
        """The changes of `group_offsets`."""
        return [
            self._change(key, self.offsets.offsets.get(key), guard)
            for key, guard in self._guards.items()
        ]

    def pending(self) -> list[Row]:
        """The offsets that are pending after the last record."""
        return [
            self._row(key, record)
            for records in self.offsets.pending.values()
            for key, record in records.items()
        ]

    def _replay_commit(self, record: _Offset) -> None:
        is_pending = record.is_transactional
        resolved = self.offsets.replay_commit(record.key, record.value, is_transactional=is_pending)
        if not is_pending:
            self._apply(record)
            self._guards[record.key] = record.record_offset
        self._resolve_superseded(resolved, record)

    def _replay_tombstone(self, record: _Offset) -> None:
        producer_id = NO_PRODUCER_ID if record.producer_id is None else record.producer_id
        resolved = self.offsets.replay_tombstone(
            record.key, producer_id=producer_id, is_transactional=record.is_transactional
        )
        self._apply(record)
        if not (record.is_transactional and self.offsets.semantics is Semantics.SCALA):
            self._guards[record.key] = record.record_offset
        self._resolve_superseded(resolved, record)

    def _replay_marker(self, marker: _Marker) -> None:
        producer_id = NO_PRODUCER_ID if marker.producer_id is None else marker.producer_id
        resolved = self.offsets.replay_end_transaction_marker(producer_id, marker.control_type)
        if resolved:
            self.applied_markers.add(marker.record_offset)
        for commit in resolved:
            if commit.outcome is Outcome.COMMITTED:
                self.counts["applied"] += 1
                # Under `scala` a tombstone may have a greater record offset than the commit that
                # COMMIT restores.
                guard = max(self._guards.get(commit.key, -1), commit.record.record_offset)
                self._guards[commit.key] = guard
            else:
                self.counts["ignored"] += 1
            self._resolve(commit, marker)

    def _apply(self, record: _Offset) -> None:
        self.counts["applied"] += 1
        self.history.append(
            {
                **self._row(record.key, record.value),
                "is_tombstone": record.is_tombstone,
                "producer_id": record.producer_id,
                **_outcome(Outcome.COMMITTED, record),
            }
        )

    def _resolve_superseded(self, resolved: Iterable[Resolved], by: _Record) -> None:
        for commit in resolved:
            self.counts["superseded"] += 1
            self._resolve(commit, by)

    def _resolve(self, commit: Resolved, by: _Record) -> None:
        self.resolved_groups.add(commit.key.group_id)
        row = self._row(commit.key, commit.record)
        self.history.append({**row, "is_tombstone": False, **_outcome(commit.outcome, by)})

    def _row(self, key: OffsetKey, record: CommittedOffset) -> dict[str, Any]:
        return {
            "log_partition": self.log_partition,
            "record_timestamp_ms": self._timestamps_ms[record.record_offset],
            **key._asdict(),
            **{name: getattr(record, name) for name in _VALUES},
        }

    def _change(self, key: OffsetKey, record: CommittedOffset | None, guard: int) -> Row:
        columns = {"log_partition": self.log_partition, **key._asdict(), GUARD_OFFSET: guard}
        if record is None:
            return {**columns, "is_tombstone": True, "record_offset": guard}
        values = {name: getattr(record, name) for name in _VALUES}
        return {**columns, "is_tombstone": False, **values}


def _offset(row: Row) -> _Offset:
    offset: _Offset = _Offset.of(
        row,
        key=OffsetKey(row["group_id"], row["topic"], row["partition"]),
        is_transactional=row["is_transactional"],
        is_tombstone=row["is_tombstone"],
        value=CommittedOffset.from_row(row),
    )
    return offset


def _outcome(outcome: Outcome, by: _Record) -> Row:
    return {
        "outcome": outcome.value,
        "outcome_record_offset": by.record_offset,
        "outcome_timestamp_ms": by.timestamp_ms,
    }
