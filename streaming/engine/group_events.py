"""What a micro-batch tells of groups: rows of `group_events`.

Most commits move an offset forward, and nothing happened. Those of which something may have to be
told are found over columns: keys with a tombstone, a lower offset than before, a transaction that
ended out of order, or of a group that may have no members. They go through the core's
`GroupEventReplay`, in log order with the records of their group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_events import (
    HUNG_AFTER_MS,
    EventName,
    GroupEvent,
    GroupEventReplay,
)
from coordinator_state.records.record_types import GROUP_METADATA_TYPE
from coordinator_state.replay.group_replay import AskTopicNames, GroupState
from coordinator_state.replay.groups import Group, as_columns
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, Outcome, Semantics
from streaming.engine.committed_offsets import KEY, CommittedOffsets
from streaming.engine.groups import GroupId, group_making_commits, group_record, replay_of
from streaming.engine.offsets import key_codes
from streaming.tables.schemas import GROUP_EVENTS

Row = dict[str, Any]
_NOTHING = -1
_ENDED = pa.array([Outcome.COMMITTED.value, Outcome.ABORTED.value])


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPlan:
    """What is needed besides the micro-batch: as it was before it.

    `replayed` fills with what the groups that have records are behind the micro-batch, under
    `coordinator` semantics: to tell what happened takes the same replay.
    """

    committed: CommittedOffsets
    groups: Mapping[GroupId, GroupState]
    semantics: Semantics
    topic_names: AskTopicNames
    retention_ms: int
    replayed: dict[GroupId, GroupState | None] = field(default_factory=dict)

    def events(self, rows: pa.Table, history: pa.Table, records: list[Row]) -> pa.Table:
        """Rows of `group_events`, with times in ms.

        Args:
            rows: the micro-batch's rows (`LOG_ROW_SCHEMA`).
            history: of the micro-batch's offsets (`HISTORY_SCHEMA`).
            records: what `plan_records` made of its group records.
        """
        by_group: dict[GroupId, list[Row]] = defaultdict(list)
        for row in records:
            if self.semantics is Semantics.SCALA and row["record_type"] != GROUP_METADATA_TYPE:
                continue
            by_group[row["log_partition"], row["group_id"]].append(row)
        told: dict[GroupId, list[tuple[int, Row | None]]] = defaultdict(list)
        for identity, of_group in by_group.items():
            told[identity] = [(row["record_offset"], row) for row in of_group]
        if by_group and self.semantics is Semantics.COORDINATOR:
            names = pa.array({group_id for _, group_id in by_group}, pa.string())
            theirs = rows.filter(pc.is_in(rows["group_id"], names))
            for identity, places in group_making_commits(theirs, by_group, self.groups).items():
                if identity in told:
                    told[identity] += [(place, None) for place in places]
        for row in self._moves(history, set(by_group)):
            place = row["outcome_record_offset"]
            told[row["log_partition"], row["group_id"]].append((place, row))
        found = _hung(history)
        for (log_partition, group_id), happened in told.items():
            happened.sort(key=lambda one: one[0])
            identity = log_partition, group_id
            replay = GroupEventReplay(replay_of(identity, self.groups))
            found += [
                {
                    "log_partition": log_partition,
                    "record_timestamp_ms": at_ms,
                    **event_columns(event),
                }
                for event, at_ms in self._of_group(group_id, replay, [row for _, row in happened])
            ]
            if identity in by_group and self.semantics is Semantics.COORDINATOR:
                self.replayed[identity] = replay.groups.states.get(group_id)
        return self._table(found)

    def _moves(self, history: pa.Table, with_records: set[GroupId]) -> list[Row]:
        """The rows of keys of which something may have to be told, by key and by effect."""
        takes_part = pc.equal(history["outcome"], Outcome.COMMITTED.value)
        if self.semantics is Semantics.SCALA:
            waits = pc.and_(history["is_tombstone"], pc.is_valid(history["producer_id"]))
            takes_part = pc.and_not(takes_part, waits)
        rows = history.filter(takes_part)
        if not rows.num_rows:
            return []
        codes = key_codes(rows.select(KEY))
        own = rows["record_offset"].to_numpy()
        order = np.lexsort((own, rows["outcome_record_offset"].to_numpy(), codes))
        rows, codes, own = rows.take(pa.array(order)), codes[order], own[order]
        is_first = np.append(True, codes[1:] != codes[:-1])
        key = np.cumsum(is_first) - 1
        before = self.committed.before(rows.filter(pa.array(is_first)))

        def previous(values: Any, stored: str) -> Any:
            known = pc.fill_null(before[stored], _NOTHING).to_numpy()
            return np.where(is_first, known[key], np.roll(values, 1))

        committed = pc.fill_null(rows["committed_offset"], _NOTHING).to_numpy()
        was = previous(committed, "committed_offset")
        is_told = (committed < was) | (own < previous(own, "record_offset"))
        is_told |= (committed != was) & self._may_be_empty(rows, with_records)
        of_told = np.flatnonzero(np.isin(codes, codes[is_told]))
        stored = before.take(pa.array(key[of_told])).to_struct_array()
        return rows.take(pa.array(of_told)).append_column("stored", stored).to_pylist()

    def _may_be_empty(self, rows: pa.Table, with_records: set[GroupId]) -> Any:
        """Rows of groups that have no members, though a record, or had none at some moment."""
        groups = rows.group_by(["log_partition", "group_id"]).aggregate([])
        names = [
            group_id
            for log_partition, group_id in zip(
                groups["log_partition"].to_pylist(), groups["group_id"].to_pylist(), strict=True
            )
            if (log_partition, group_id) in with_records
            or _has_no_members(self.groups.get((log_partition, group_id)))
        ]
        return pc.is_in(rows["group_id"], pa.array(names, pa.string())).to_numpy()

    def _of_group(
        self, group_id: str, replay: GroupEventReplay, rows: Iterable[Row | None]
    ) -> Iterable[tuple[GroupEvent, int | None]]:
        """Events of one group with their times; rows are records and moves by place in the log.

        None is a commit that may make the group.
        """
        offsets: dict[OffsetKey, CommittedOffset | None] = {}
        for row in rows:
            if row is None:
                replay.groups.replay_offset_commit(group_id)
                continue
            if "record_key" in row:
                for event in replay.replay_record(group_record(row)):
                    yield event, row["record_timestamp_ms"]
                continue
            key = OffsetKey(row["group_id"], row["topic"], row["partition"])
            if key not in offsets:
                offsets[key] = _stored(row["stored"])
            moved = self._move(replay, key, row, offsets)
            if moved is not None:
                yield moved, row["outcome_timestamp_ms"]

    def _move(
        self,
        replay: GroupEventReplay,
        key: OffsetKey,
        row: Row,
        offsets: dict[OffsetKey, CommittedOffset | None],
    ) -> GroupEvent | None:
        before, place = offsets[key], row["outcome_record_offset"]
        if row["is_tombstone"]:
            offsets[key] = None
            if before is None:
                return None
            return replay.replay_tombstone(
                key,
                before,
                place,
                timestamp_ms=row["outcome_timestamp_ms"],
                retention_ms=self.retention_ms,
            )
        after = _committed(row)
        if before is not None and before.record_offset > after.record_offset:
            return None
        offsets[key] = after
        return replay.replay_commit(key, before, after, place, self.topic_names)

    def _table(self, rows: list[Row]) -> pa.Table:
        rows.sort(key=lambda row: (row["log_partition"], row["record_offset"], row["group_id"]))
        assignments = [row[name] or () for row in rows for name in _ASSIGNMENTS]
        topic_ids = {entry["topic_id"] for entries in assignments for entry in entries}
        names = self.topic_names(topic_ids - {None})
        for entries in assignments:
            for entry in entries:
                entry["topic"] = entry["topic"] or names.get(entry["topic_id"])
        place, number = None, 0
        for row in rows:
            at = row["log_partition"], row["record_offset"]
            place, number = at, number + 1 if at == place else 0
            row["event_number"] = number
        return pa.Table.from_pylist(rows, schema=EVENT_SCHEMA)


_ASSIGNMENTS = ("assignment_before", "assignment_after")
_LISTS = (*_ASSIGNMENTS, "tasks_before", "tasks_after")
EVENT_SCHEMA = pa.schema(
    [
        pa.field("record_timestamp_ms", pa.int64())
        if field.name == "record_timestamp"
        else field.with_nullable(True)
        for field in GROUP_EVENTS.schema
        if field.name != "day"
    ]
)


def event_columns(event: GroupEvent) -> Row:
    """An event as columns of a row, without its place in the tables."""
    columns = event._asdict()
    for name in _LISTS:
        columns[name] = as_columns(columns[name])
    columns["event"] = event.event.value
    return columns


def _has_no_members(state: GroupState | None) -> bool:
    if state is None or (isinstance(state, Group) and state.is_simple):
        return False
    return not state.members


def _stored(stored: Row) -> CommittedOffset | None:
    return None if stored["record_offset"] is None else _committed(stored)


def _committed(row: Row) -> CommittedOffset:
    return CommittedOffset(
        committed_offset=row["committed_offset"],
        leader_epoch=row.get("leader_epoch"),
        commit_timestamp_ms=row["commit_timestamp_ms"],
        expire_timestamp_ms=row["expire_timestamp_ms"],
        record_offset=row["record_offset"],
        producer_id=row.get("producer_id"),
    )


def _hung(history: pa.Table) -> list[Row]:
    """An event for each group that waited long for the end of a transaction."""
    waited_ms = pc.subtract(history["outcome_timestamp_ms"], history["record_timestamp_ms"])
    hung = history.append_column("waited_ms", waited_ms).filter(
        pc.and_(
            pc.and_(pc.is_valid(history["producer_id"]), pc.greater(waited_ms, HUNG_AFTER_MS)),
            pc.is_in(history["outcome"], _ENDED),
        )
    )
    key = ["log_partition", "group_id", "producer_id", "outcome_record_offset", "outcome"]
    found = hung.group_by(key).aggregate([("waited_ms", "max"), ("outcome_timestamp_ms", "max")])
    return [
        {
            "log_partition": row["log_partition"],
            "record_timestamp_ms": row["outcome_timestamp_ms_max"],
            **event_columns(
                GroupEvent(
                    event=EventName.TRANSACTION_HUNG,
                    group_id=row["group_id"],
                    record_offset=row["outcome_record_offset"],
                    producer_id=row["producer_id"],
                    outcome=row["outcome"],
                    duration_ms=row["waited_ms_max"],
                )
            ),
        }
        for row in found.to_pylist()
    ]
