"""Records of consumer, share and streams groups, and what they make of a group.

Tests that name one of Kafka's follow GroupMetadataManagerTest.java, ConsumerGroupTest.java and
StreamsGroupTest.java of 4.2.0 (group-coordinator/src/test/java/org/apache/kafka/coordinator/group).
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state.records.record_types import OFFSET_COMMIT_TYPES, RECORD_TYPES
from coordinator_state.replay.group_replay import MODERN_GROUPS
from coordinator_state.replay.groups import (
    CLASSIC,
    CONSUMER,
    EMPTY,
    SHARE,
    STABLE,
    STREAMS,
    simple_group,
)
from coordinator_state.replay.modern_groups import Part
from tests.support.logs.group_log import TYPES, Log, a_group, classic, every_type, value


def test_every_record_type_belongs_to_a_type_of_group_but_that_of_the_early_access() -> None:
    assert set(MODERN_GROUPS) == set(RECORD_TYPES) - set(OFFSET_COMMIT_TYPES) - {2, 9}
    log = Log()
    log.add(9, {"topics": []})
    assert log.replay.states == {}


@every_type
def test_a_group_with_members(group_type: str) -> None:
    group = a_group(group_type, "m2", "m1").group

    assert (group.group_type, group.protocol_type, group.state) == (group_type, group_type, STABLE)
    assert (group.group_epoch, group.assignment_epoch, group.generation) == (1, 1, None)
    assert [member.member_id for member in group.members] == ["m1", "m2"]
    assert {member.member_epoch for member in group.members} == {1}
    assert (group.created_record_offset, group.replay_warning) == (0, None)


@every_type
@pytest.mark.parametrize("part", list(Part))
def test_any_value_makes_a_group(group_type: str, part: Part) -> None:
    """As `testReplayConsumerGroupMetadata`, `…MemberMetadata`, `…PartitionMetadata` and so on."""
    numbers = [t for t, kind in MODERN_GROUPS.items() if kind.group_type == group_type]
    for number in numbers:
        if MODERN_GROUPS[number].parts[number] is not part:
            continue
        log = Log()
        only: dict[int, dict[str, Any]] = {
            4: {"topics": []},
            6: {"assignmentEpoch": 0},
            12: {"assignmentEpoch": 0},
            20: {"assignmentEpoch": 0},
            15: {"initializingTopics": [], "initializedTopics": [], "deletingTopics": []},
            16: {"topics": ["t"], "version": 1, "timestamp": 1},
        }
        log.add(number, value(number, **only.get(number, {})), "m")
        assert log.group.group_type == group_type
        assert log.group.record_offset == 0


@every_type
def test_a_member_leaves_and_comes_back(group_type: str) -> None:
    log = a_group(group_type, "m", "n")
    log.drop(group_type, Part.CURRENT, "m")
    assert [member.member_epoch for member in log.group.members] == [-1, 1]
    log.drop(group_type, Part.TARGET, "m")
    log.drop(group_type, Part.MEMBER, "m")
    assert [member.member_id for member in log.group.members] == ["n"]

    log.put(group_type, Part.MEMBER, "m")
    again = log.group.members[0]
    assert again.member_epoch == (None if group_type == STREAMS else 0)
    assert again.created_record_offset == log.next_offset - 1
    assert log.warnings == []


@every_type
def test_a_group_is_deleted_as_brokers_do_it(group_type: str) -> None:
    log = a_group(group_type, "m")
    for part in (Part.CURRENT, Part.TARGET):
        log.drop(group_type, part, "m")
    log.drop(group_type, Part.TARGET_EPOCH)
    assert log.group.assignment_epoch == -1
    log.drop(group_type, Part.MEMBER, "m")
    assert log.group.state == EMPTY
    log.drop(group_type, Part.GROUP)

    assert (log.replay.states, log.warnings) == ({}, [])


LEFT_OVER = [
    (CONSUMER, Part.GROUP, "delete group g but the group still has 1 members."),
    (SHARE, Part.GROUP, "delete group g but the group still has 1 members."),
    (STREAMS, Part.GROUP, "delete group g but the group still has 1 members."),
    (
        CONSUMER,
        Part.MEMBER,
        "delete member m but did not receive ConsumerGroupCurrentMemberAssignmentValue tombstone.",
    ),
    (SHARE, Part.MEMBER, "delete member m with invalid leave group epoch."),
    (
        STREAMS,
        Part.MEMBER,
        "delete member m but did not receive StreamsGroupCurrentMemberAssignmentValue tombstone.",
    ),
    *(
        (
            group_type,
            Part.TARGET_EPOCH,
            "delete target assignment of g but the assignment still has 1 members.",
        )
        for group_type in TYPES
    ),
]


@pytest.mark.parametrize(("group_type", "part", "reason"), LEFT_OVER)
def test_a_tombstone_out_of_order_is_applied_with_a_warning(
    group_type: str, part: Part, reason: str
) -> None:
    log = a_group(group_type, "m")
    log.drop(group_type, part, "m" if part is Part.MEMBER else "")

    assert log.reasons == [f"Received a tombstone record to {reason}"]
    if part is Part.GROUP:
        assert log.replay.states == {}
    elif part is Part.MEMBER:
        assert log.group.members == ()
    else:
        assert log.group.assignment_epoch == -1
        assert log.group.replay_warning == (
            f"record offset {log.next_offset - 1}: Received a tombstone record to {reason}"
        )


@pytest.mark.parametrize(
    ("group_type", "reason"),
    [
        (
            CONSUMER,
            "but did not receive ConsumerGroupTargetAssignmentMetadataValue tombstone.",
        ),
        (SHARE, "but target assignment epoch in invalid."),
        (STREAMS, "but did not receive StreamsGroupTargetAssignmentMetadataValue tombstone."),
    ],
)
def test_a_group_of_an_assignment_epoch_cannot_be_deleted(group_type: str, reason: str) -> None:
    log = a_group(group_type)
    log.drop(group_type, Part.GROUP)

    assert log.reasons == [f"Received a tombstone record to delete group g {reason}"]


@pytest.mark.parametrize(
    ("group_type", "expected"),
    [
        (CONSUMER, ["the target assignment still has 1 members."]),
        (SHARE, ["the target assignment still has 1 members."]),
        (STREAMS, []),
    ],
)
def test_targets_without_members_do_not_keep_a_streams_group(
    group_type: str, expected: list[str]
) -> None:
    log = Log()
    log.put(group_type, Part.GROUP)
    log.drop(group_type, Part.TARGET_EPOCH)
    log.put(group_type, Part.TARGET, "m")
    log.drop(group_type, Part.GROUP)

    assert [reason.partition(" but ")[2] for reason in log.reasons] == expected


@pytest.mark.parametrize("group_type", [CONSUMER, STREAMS])
def test_a_simple_group_gives_way(group_type: str) -> None:
    log = Log()
    log.commit()
    log.put(group_type, Part.GROUP)

    assert (log.group.group_type, log.group.created_record_offset) == (group_type, 1)
    assert log.warnings == []


@pytest.mark.parametrize("group_type", [CONSUMER, STREAMS])
def test_a_simple_group_gives_way_to_a_tombstone_too(group_type: str) -> None:
    log = Log()
    log.commit()
    log.drop(group_type, Part.CURRENT, "m")

    assert (log.group.group_type, log.group.state) == (group_type, EMPTY)
    assert log.warnings == []
    # A lone tombstone of its metadata is refused: the new group's assignment epoch is 0.
    log.drop(group_type, Part.GROUP)
    assert len(log.warnings) == 1
    assert log.replay.states == {}


def test_a_simple_group_does_not_give_way_to_a_share_group() -> None:
    log = Log()
    log.commit()
    log.drop(SHARE, Part.MEMBER, "m")
    assert log.group.group_type == CLASSIC
    log.put(SHARE, Part.MEMBER, "m")

    assert log.group.group_type == SHARE
    assert log.reasons == ["Group g is not a share group."] * 2


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (CONSUMER, SHARE, "Group g is not a share group."),
        (SHARE, STREAMS, "Group g is not a streams group."),
        (STREAMS, CONSUMER, "Group g is not a consumer group"),
    ],
)
def test_another_type_takes_the_place_with_a_warning_and_its_tombstones_change_nothing(
    first: str, second: str, reason: str
) -> None:
    log = a_group(first, "m")
    before = log.group
    log.drop(second, Part.GROUP)
    assert log.group.group_type == first
    assert log.group.members == before.members
    assert log.group.replay_warning == f"record offset {log.next_offset - 1}: {reason}"

    log.put(second, Part.MEMBER, "n")
    assert (log.group.group_type, log.group.created_record_offset) == (second, log.next_offset - 1)
    assert log.reasons == [reason, reason]


@every_type
def test_a_group_metadata_value_replaces_any_group_and_its_tombstone_removes_any(
    group_type: str,
) -> None:
    log = a_group(group_type, "m")
    log.add(2, classic("x"))
    assert (log.group.group_type, [m.member_id for m in log.group.members]) == (CLASSIC, ["x"])

    log = a_group(group_type, "m")
    log.add(2, None)
    assert (log.replay.states, log.warnings) == ({}, [])


def test_a_classic_group_is_converted_to_a_consumer_group() -> None:
    """As `convertToConsumerGroup` writes it, in one batch; and back."""
    log = Log()
    log.add(2, classic("m"))
    log.add(2, None)
    log.put(CONSUMER, Part.MEMBER, "m", subscribedTopicNames=["t"])
    log.put(CONSUMER, Part.GROUP, epoch=4)
    log.put(CONSUMER, Part.TARGET, "m")
    log.put(CONSUMER, Part.TARGET_EPOCH, assignmentEpoch=4)
    log.put(CONSUMER, Part.CURRENT, "m", memberEpoch=4)
    assert (log.group.state, log.group.group_epoch) == (STABLE, 4)
    assert log.group.subscribed_topics == ("t",)

    for part in (Part.CURRENT, Part.TARGET):
        log.drop(CONSUMER, part, "m")
    log.drop(CONSUMER, Part.TARGET_EPOCH)
    log.drop(CONSUMER, Part.MEMBER, "m")
    log.drop(CONSUMER, Part.GROUP)
    log.add(2, classic("m"))
    assert (log.group.group_type, log.group.generation) == (CLASSIC, 4)
    assert log.warnings == []


def test_a_consumer_value_over_a_classic_group_takes_its_place() -> None:
    """What a compacted log may hold after a downgrade (KAFKA-21117)."""
    log = Log()
    log.add(2, classic("m"))
    log.put(CONSUMER, Part.GROUP)

    assert log.group.group_type == CONSUMER
    assert log.reasons == ["Group g is not a consumer group"]


def test_an_offset_commit_makes_a_simple_group_of_an_unknown_id_only() -> None:
    log = a_group(CONSUMER)
    log.commit()
    assert log.group.group_type == CONSUMER
    log.add(2, None)
    log.commit()
    assert log.group == simple_group("g")
