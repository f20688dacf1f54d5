"""Keys that transactions and tombstones touch, run through the core in log order.

This is the slower of the two ways through a micro-batch, and the one that is right for every key:
the core's `OffsetReplay` decides, this module gathers what changes and what became of each record.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from coordinator_state.records.record_types import NO_PRODUCER_ID
from coordinator_state.replay.offsets import (
    CommittedOffset,
    OffsetKey,
    OffsetReplay,
    Outcome,
    Semantics,
)

OFFSET_COLUMNS = (
    "log_partition",
    "record_offset",
    "record_timestamp_ms",
    "producer_id",
    "producer_epoch",
    "is_tombstone",
    "group_id",
    "topic",
    "partition",
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
    "topic_id",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingOffset:
    """A waiting transactional offset: a row of `pending_offsets`."""

    log_partition: int
    key: OffsetKey
    record: CommittedOffset
    record_timestamp_ms: int | None


@dataclass(slots=True)
class RecordCounts:
    """What became of records, per log partition."""

    applied: Counter[int] = field(default_factory=Counter)
    superseded: Counter[int] = field(default_factory=Counter)
    ignored: Counter[int] = field(default_factory=Counter)
    quarantined: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class ExactReplay:
    """What `run` gathers: changes and history as rows, what waits, whose waiting offsets went.

    `ended` are the places of the markers that ended something; `counts` does not get the markers.
    """

    semantics: Semantics
    counts: RecordCounts
    changes: list[dict[str, Any]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    pending: list[PendingOffset] = field(default_factory=list)
    unwaiting: set[tuple[int, str]] = field(default_factory=set)
    ended: set[tuple[int, int]] = field(default_factory=set)

    def run(
        self,
        offsets: pa.Table,
        markers: pa.Table,
        pending: Iterable[PendingOffset],
    ) -> None:
        """Replay the rows of such keys and the markers, on top of what waits already."""
        events: dict[int, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        waiting: dict[int, list[PendingOffset]] = defaultdict(list)
        for entry in pending:
            waiting[entry.log_partition].append(entry)
        for row in offsets.to_pylist():
            events[row["log_partition"]].append((row["record_offset"], row))
        producers = {
            (entry.log_partition, entry.record.producer_id)
            for entries in waiting.values()
            for entry in entries
        } | {
            (log_partition, row["producer_id"])
            for log_partition, rows in events.items()
            for _, row in rows
            if row["waits"]
        }
        for marker in markers.to_pylist():
            log_partition = marker["log_partition"]
            if (log_partition, marker["producer_id"]) in producers:
                events[log_partition].append((marker["record_offset"], marker))
        for log_partition in sorted(events.keys() | waiting.keys()):
            self._run_log_partition(
                log_partition,
                sorted(events.get(log_partition, []), key=lambda event: event[0]),
                waiting.get(log_partition, []),
            )

    def _run_log_partition(
        self,
        log_partition: int,
        events: list[tuple[int, dict[str, Any]]],
        waiting: list[PendingOffset],
    ) -> None:
        replay = OffsetReplay(self.semantics)
        timestamps: dict[int, int | None] = {}
        for entry in waiting:
            producer_id = entry.record.producer_id
            replay.pending.setdefault(NO_PRODUCER_ID if producer_id is None else producer_id, {})[
                entry.key
            ] = entry.record
            timestamps[entry.record.record_offset] = entry.record_timestamp_ms
        positions: dict[OffsetKey, int] = {}
        for record_offset, row in events:
            timestamps[record_offset] = row["record_timestamp_ms"]
            if "control_type" in row:
                self._replay_marker(log_partition, replay, row, positions, timestamps)
            else:
                self._replay_offset(log_partition, replay, row, positions, timestamps)
        for key, position in positions.items():
            self.changes.append(_change(log_partition, key, replay.offsets.get(key), position))
        for waiting_offsets in replay.pending.values():
            for key, record in waiting_offsets.items():
                self.pending.append(
                    PendingOffset(
                        log_partition=log_partition,
                        key=key,
                        record=record,
                        record_timestamp_ms=timestamps[record.record_offset],
                    )
                )

    def _replay_offset(
        self,
        log_partition: int,
        replay: OffsetReplay,
        row: Mapping[str, Any],
        positions: dict[OffsetKey, int],
        timestamps: Mapping[int, int | None],
    ) -> None:
        key = OffsetKey(row["group_id"], row["topic"], row["partition"])
        record_offset = row["record_offset"]
        waits = row["waits"]
        if row["is_tombstone"]:
            resolved = replay.replay_tombstone(key, producer_id=row["producer_id"], waits=waits)
            takes_part = not (waits and self.semantics is Semantics.SCALA)
            self.history.append(_history(log_partition, row, Outcome.COMMITTED, row))
            self.counts.applied[log_partition] += 1
        else:
            record = _record(row)
            resolved = replay.replay_commit(key, record, waits=waits)
            takes_part = not waits
            if not waits:
                self.history.append(_history(log_partition, row, Outcome.COMMITTED, row))
                self.counts.applied[log_partition] += 1
        if takes_part:
            positions[key] = record_offset
        for key_, record_, outcome in resolved:
            self.counts.superseded[log_partition] += 1
            self.unwaiting.add((log_partition, key_.group_id))
            self.history.append(
                _resolved_history(log_partition, key_, record_, outcome, row, timestamps)
            )

    def _replay_marker(
        self,
        log_partition: int,
        replay: OffsetReplay,
        row: Mapping[str, Any],
        positions: dict[OffsetKey, int],
        timestamps: Mapping[int, int | None],
    ) -> None:
        resolved = replay.replay_end_transaction_marker(row["producer_id"], row["control_type"])
        if resolved:
            self.ended.add((log_partition, row["record_offset"]))
        for key, record, outcome in resolved:
            if outcome is Outcome.COMMITTED:
                self.counts.applied[log_partition] += 1
                # A tombstone under `scala` may lie further on than the record it let come back.
                positions[key] = max(positions.get(key, -1), record.record_offset)
            else:
                self.counts.ignored[log_partition] += 1
            self.unwaiting.add((log_partition, key.group_id))
            self.history.append(
                _resolved_history(log_partition, key, record, outcome, row, timestamps)
            )


def _record(row: Mapping[str, Any]) -> CommittedOffset:
    return CommittedOffset(
        committed_offset=row["committed_offset"],
        leader_epoch=row["leader_epoch"],
        metadata=row["metadata"],
        commit_timestamp_ms=row["commit_timestamp_ms"],
        expire_timestamp_ms=row["expire_timestamp_ms"],
        topic_id=row["topic_id"],
        record_offset=row["record_offset"],
        producer_id=row["producer_id"],
        producer_epoch=row["producer_epoch"],
    )


def _value_columns(record: CommittedOffset | None) -> dict[str, Any]:
    if record is None:
        return {}
    return {
        "committed_offset": record.committed_offset,
        "leader_epoch": record.leader_epoch,
        "metadata": record.metadata,
        "commit_timestamp_ms": record.commit_timestamp_ms,
        "expire_timestamp_ms": record.expire_timestamp_ms,
        "topic_id": record.topic_id,
        "producer_id": record.producer_id,
    }


def _change(
    log_partition: int, key: OffsetKey, record: CommittedOffset | None, position: int
) -> dict[str, Any]:
    return {
        "log_partition": log_partition,
        **key._asdict(),
        "is_tombstone": record is None,
        "position": position,
        "record_offset": position if record is None else record.record_offset,
        **_value_columns(record),
    }


def _history(
    log_partition: int, row: Mapping[str, Any], outcome: Outcome, ended_by: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        **{name: row[name] for name in OFFSET_COLUMNS},
        "log_partition": log_partition,
        "outcome": outcome.value,
        "outcome_record_offset": ended_by["record_offset"],
        "outcome_timestamp_ms": ended_by["record_timestamp_ms"],
    }


def _resolved_history(
    log_partition: int,
    key: OffsetKey,
    record: CommittedOffset,
    outcome: Outcome,
    ended_by: Mapping[str, Any],
    timestamps: Mapping[int, int | None],
) -> dict[str, Any]:
    return {
        "log_partition": log_partition,
        "record_offset": record.record_offset,
        "record_timestamp_ms": timestamps[record.record_offset],
        **key._asdict(),
        "is_tombstone": False,
        **_value_columns(record),
        "producer_epoch": record.producer_epoch,
        "outcome": outcome.value,
        "outcome_record_offset": ended_by["record_offset"],
        "outcome_timestamp_ms": ended_by["record_timestamp_ms"],
    }
