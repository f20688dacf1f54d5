"""What group records and commits tell, and what they do not."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state.insight.group_events import EventName, GroupEvent, GroupEventReplay
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import decode_value
from coordinator_state.replay.group_replay import GroupRecord
from coordinator_state.replay.groups import STREAMS, AssignedPartition
from coordinator_state.replay.modern_groups import Part
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey
from tests.support.logs.group_log import TYPES, T, record_type, value
from tests.support.logs.logs import group_value

DAY_MS = 86_400_000
KEY = OffsetKey("g", "t", 0)


class LogOfGroup:
    """A log of one group, and what its records tell."""

    def __init__(self) -> None:
        self.replay = GroupEventReplay()
        self.next_offset = 0

    def _record(self, number: int, fields: dict[str, Any] | None, name: str) -> list[GroupEvent]:
        record = GroupRecord(number, "g", name, fields, self.next_offset)
        self.next_offset += 1
        events = self.replay.replay_record(record)
        assert {event.record_offset for event in events} <= {record.record_offset}
        return events

    def classic(self, *members: str, generation: int = 1) -> list[GroupEvent]:
        raw = group_value(members, generation=generation)
        return self._record(2, decode_value(RECORD_TYPES[2], raw).fields, "")

    def classic_tombstone(self) -> list[GroupEvent]:
        return self._record(2, None, "")

    def put(self, group_type: str, part: Part, name: str = "", **fields: Any) -> list[GroupEvent]:
        number = record_type(group_type, part)
        return self._record(number, value(number, **fields), name)

    def drop(self, group_type: str, part: Part, name: str = "") -> list[GroupEvent]:
        return self._record(record_type(group_type, part), None, name)

    def moved(self, before: int, after: int, **fields: Any) -> GroupEvent | None:
        """A commit after the last record, over one from before it (`was_at` says where)."""
        was = committed(before, record_offset=fields.pop("was_at", 0))
        now = committed(after, record_offset=100, **fields)
        return self.replay.replay_commit(KEY, was, now, 100)


def committed(offset: int, *, record_offset: int, **fields: Any) -> CommittedOffset:
    return CommittedOffset(
        committed_offset=offset, commit_timestamp_ms=1_000, record_offset=record_offset, **fields
    )


def names(events: list[GroupEvent]) -> list[str]:
    return [event.event.value for event in events]


def test_the_life_of_a_classic_group() -> None:
    log = LogOfGroup()
    begun = log.classic("m1")
    assert names(begun) == ["group_created", "rebalance", "member_joined", "assignment_changed"]
    assert (begun[1].epoch_before, begun[1].epoch_after, begun[1].member_count) == (None, 1, 1)
    assert (begun[2].member_id, begun[2].client_id) == ("m1", "client of m1")
    assert begun[3].assignment_before is None
    assert begun[3].assignment_after == (AssignedPartition(topic="t", partition=0),)

    assert log.classic("m1") == []
    changed = log.classic("m2", "m3", generation=2)
    assert names(changed) == [
        *("rebalance", "member_left"),
        *("member_joined", "assignment_changed") * 2,
    ]
    assert (changed[1].member_id, changed[1].client_host) == ("m1", "/127.0.0.1")

    emptied = log.classic(generation=3)
    assert names(emptied) == ["rebalance", "member_left", "member_left", "group_emptied"]
    (deleted,) = log.classic_tombstone()
    assert (deleted.event, deleted.epoch_before) == (EventName.GROUP_DELETED, 3)
    assert log.classic_tombstone() == []


@pytest.mark.parametrize("group_type", TYPES)
def test_the_life_of_a_modern_group(group_type: str) -> None:
    log = LogOfGroup()
    joined = log.put(group_type, Part.MEMBER, "m")
    assert names(joined) == ["group_created", "member_joined"]
    assert {event.group_type for event in joined} == {group_type}
    assert joined[1].client_host == "/h"
    extra: dict[str, Any] = {"validatedTopologyEpoch": 1} if group_type == STREAMS else {}
    (rebalance,) = log.put(group_type, Part.GROUP, epoch=2, **extra)
    assert (rebalance.epoch_before, rebalance.epoch_after) == (1, 2)
    tasks = [{"subtopologyId": "s", "partitions": [1, 2]}]
    target: dict[str, Any] = (
        {"activeTasks": tasks}
        if group_type == STREAMS
        else {"topicPartitions": [{"topicId": T, "partitions": [1, 2]}]}
    )
    (changed,) = log.put(group_type, Part.TARGET, "m", **target)
    assert changed.event == EventName.ASSIGNMENT_CHANGED
    now = changed.tasks_after if group_type == STREAMS else changed.assignment_after
    assert [entry.partition for entry in now or ()] == [1, 2]
    assert log.put(group_type, Part.TARGET_EPOCH, assignmentEpoch=1) == []
    assert log.put(group_type, Part.CURRENT, "m") == []

    assert log.drop(group_type, Part.CURRENT, "m") == []
    (changed,) = log.drop(group_type, Part.TARGET, "m")
    assert (changed.assignment_after, changed.tasks_after) == (None, None)
    left = log.drop(group_type, Part.MEMBER, "m")
    assert names(left) == ["member_left", "group_emptied"]
    log.drop(group_type, Part.TARGET_EPOCH)
    (deleted,) = log.drop(group_type, Part.GROUP)
    assert (deleted.event, deleted.epoch_before) == (EventName.GROUP_DELETED, 2)


def test_a_conversion_is_another_group() -> None:
    log = LogOfGroup()
    log.classic("m1")
    log.classic_tombstone()
    made = log.put("consumer", Part.MEMBER, "m1")
    assert [(event.event.value, event.group_type) for event in made] == [
        ("group_created", "consumer"),
        ("member_joined", "consumer"),
    ]


def test_a_member_that_goes_back_is_named() -> None:
    log = LogOfGroup()
    log.classic("m1", "m2")
    event = log.moved(9, 4, leader_epoch=3)
    assert event is not None
    assert (event.event, event.member_id, event.offset_before, event.offset_after) == (
        *(EventName.OFFSET_REWIND, "m1"),
        *(9, 4),
    )
    assert log.moved(4, 9) is None
    assert log.moved(4, 4) is None


def test_what_is_committed_in_the_name_of_an_empty_group_is_a_reset() -> None:
    log = LogOfGroup()
    log.classic("m1")
    log.classic(generation=2)
    for before, after in ((9, 4), (4, 9)):
        event = log.moved(before, after, leader_epoch=3)
        assert event is not None
        assert (event.event, event.member_id) == (EventName.OFFSET_RESET, None)
    # Who goes on since then, with leader epochs, is a consumer.
    assert log.moved(4, 9, leader_epoch=3, was_at=50) is None
    assert log.moved(4, 9, was_at=50) is not None
    assert log.moved(9, 4, leader_epoch=3, was_at=50) is not None


def test_a_simple_group_rewinds() -> None:
    event = LogOfGroup().moved(9, 4)
    assert event is not None
    assert (event.event, event.group_type) == (EventName.OFFSET_REWIND, "classic")
    assert LogOfGroup().moved(4, 9) is None
    assert LogOfGroup().replay.replay_commit(KEY, None, committed(4, record_offset=1), 1) is None


@pytest.mark.parametrize(
    ("days", "event"), [(6, EventName.OFFSET_DELETED), (8, EventName.OFFSET_EXPIRED)]
)
def test_a_tombstone_is_an_expiry_once_the_offset_was_to_expire(
    days: int, event: EventName
) -> None:
    deletion = LogOfGroup().replay.replay_tombstone(
        KEY,
        committed(9, record_offset=1),
        2,
        timestamp_ms=days * DAY_MS,
        retention_ms=7 * DAY_MS,
    )
    assert (deletion.event, deletion.offset_before, deletion.offset_after) == (event, 9, None)


def test_what_members_subscribe_to_does_not_expire() -> None:
    log = LogOfGroup()
    log.classic("m1")
    deletion = log.replay.replay_tombstone(
        KEY, committed(9, record_offset=1), 2, timestamp_ms=9 * DAY_MS, retention_ms=DAY_MS
    )
    assert (deletion.event, deletion.member_count) == (EventName.OFFSET_DELETED, 1)
