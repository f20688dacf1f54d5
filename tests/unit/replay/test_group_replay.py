"""Records of groups: which group they make, change, replace and delete.

Tests that name one of Kafka's follow GroupMetadataManagerTest.java, ConsumerGroupTest.java and
StreamsGroupTest.java of 4.2.0 (group-coordinator/src/test/java/org/apache/kafka/coordinator/group).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from coordinator_state.records.record_types import OFFSET_COMMIT_TYPES, RECORD_TYPES
from coordinator_state.replay.group_replay import (
    MODERN_GROUPS,
    GroupRecord,
    described,
    rebuilt_group,
)
from coordinator_state.replay.groups import (
    CLASSIC,
    CONSUMER,
    EMPTY,
    SHARE,
    STABLE,
    STREAMS,
    Group,
    simple_group,
)
from coordinator_state.replay.modern_groups import Part
from coordinator_state.replay.offsets import Semantics
from tests.support.logs.group_log import TYPES, Log, a_group, classic, every_type, value

COORDINATOR, SCALA = Semantics.COORDINATOR, Semantics.SCALA


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


@pytest.mark.parametrize("number", MODERN_GROUPS)
def test_a_value_makes_a_group_and_a_tombstone_does_not(number: int) -> None:
    """As `testReplay…Metadata`, `…Tombstone`, `testShareGroupRecordsNoExceptionOnReplay`."""
    kind = MODERN_GROUPS[number]
    part = kind.parts[number]
    log = Log()
    log.drop(kind.group_type, part, "m")
    assert (log.replay.states, log.warnings) == ({}, [])

    log.add(number, value(number), "m")
    group = log.group
    assert (group.group_type, group.record_offset, log.warnings) == (kind.group_type, 1, [])
    assert len(group.members) == (part in {Part.MEMBER, Part.CURRENT})


@every_type
def test_epochs_are_those_of_the_last_records(group_type: str) -> None:
    log = Log()
    for epoch in (10, 7):
        log.put(group_type, Part.GROUP, epoch=epoch)
        log.put(group_type, Part.TARGET_EPOCH, assignmentEpoch=epoch + 1)
    assert (log.group.group_epoch, log.group.assignment_epoch) == (7, 8)


@every_type
@pytest.mark.parametrize("part", [Part.MEMBER, Part.CURRENT, Part.TARGET])
def test_tombstone_of_a_member_that_is_not_there(group_type: str, part: Part) -> None:
    log = Log()
    log.put(group_type, Part.GROUP)
    log.drop(group_type, part, "m1")
    assert (log.group.members, log.warnings) == ((), [])


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


NO_CURRENT = "did not receive {}GroupCurrentMemberAssignmentValue tombstone."
NO_TARGET = "did not receive {}GroupTargetAssignmentMetadataValue tombstone."
LEFT = (Part.CURRENT, Part.TARGET, Part.MEMBER)
OUT_OF_ORDER: list[tuple[str, Sequence[Part], str]] = [
    *((t, [Part.GROUP], "group g but the group still has 1 members.") for t in TYPES),
    *(
        (
            group_type,
            [Part.TARGET_EPOCH],
            "target assignment of g but the assignment still has 1 members.",
        )
        for group_type in TYPES
    ),
    (CONSUMER, [Part.MEMBER], f"member m but {NO_CURRENT.format('Consumer')}"),
    (STREAMS, [Part.MEMBER], f"member m but {NO_CURRENT.format('Streams')}"),
    (SHARE, [Part.MEMBER], "member m with invalid leave group epoch."),
    (CONSUMER, [Part.CURRENT, Part.MEMBER], f"member m but {NO_TARGET.format('Consumer')}"),
    (STREAMS, [Part.CURRENT, Part.MEMBER], f"member m but {NO_TARGET.format('Streams')}"),
    (SHARE, [Part.CURRENT, Part.MEMBER], "member m but member exists in target assignment."),
    (CONSUMER, [*LEFT, Part.GROUP], f"group g but {NO_TARGET.format('Consumer')}"),
    (STREAMS, [*LEFT, Part.GROUP], f"group g but {NO_TARGET.format('Streams')}"),
    (SHARE, [*LEFT, Part.GROUP], "group g but target assignment epoch in invalid."),
]


@pytest.mark.parametrize(("group_type", "parts", "reason"), OUT_OF_ORDER)
def test_a_tombstone_out_of_order_is_applied_with_a_warning(
    group_type: str, parts: Sequence[Part], reason: str
) -> None:
    """As `testReplayStreamsGroup…TombstoneExisting`; only the last tombstone is refused."""
    log = a_group(group_type, "m")
    for part in parts:
        log.drop(group_type, part, "m" if part in LEFT else "")

    assert log.reasons == [f"Received a tombstone record to delete {reason}"]
    if part is Part.GROUP:
        assert log.replay.states == {}
    elif part is Part.MEMBER:
        assert log.group.members == ()
    else:
        assert log.group.assignment_epoch == -1
        assert log.group.replay_warning == f"record offset {log.next_offset - 1}: {log.reasons[0]}"


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


# --- a group of another type


@pytest.mark.parametrize("group_type", [CONSUMER, STREAMS])
def test_a_simple_group_gives_way(group_type: str) -> None:
    log = Log()
    log.commit()
    log.put(group_type, Part.GROUP)
    assert (log.group.group_type, log.group.created_record_offset) == (group_type, 1)
    assert log.warnings == []

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
        # What a compacted log may hold after a downgrade (KAFKA-21117).
        (CLASSIC, CONSUMER, "Group g is not a consumer group"),
    ],
)
def test_another_type_takes_the_place_with_a_warning_and_its_tombstones_change_nothing(
    first: str, second: str, reason: str
) -> None:
    log = Log()
    if first == CLASSIC:
        log.add(2, classic("m"))
    else:
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


def test_an_offset_commit_makes_a_simple_group_of_an_unknown_id_only() -> None:
    log = a_group(CONSUMER)
    log.commit()
    assert log.group.group_type == CONSUMER
    log.add(2, None)
    log.commit()
    assert log.group == simple_group("g")


# --- groups that a reload builds again from the last record of each key and the offsets

MEMBERS_AT_4 = GroupRecord(2, "g", "", classic("m"), 4)
TOMBSTONE_AT_4 = GroupRecord(2, "g", "", None, 4)
EPOCH_AT_4 = GroupRecord(3, "g", "", value(3, epoch=7), 4)
SIMPLE = simple_group("g")


def rebuilt(semantics: Semantics, *records: GroupRecord, **offsets: Any) -> Group | None:
    nothing: dict[str, Any] = {"committed": (), "pending": (), "was_simple": False}
    state = rebuilt_group("g", records, semantics, **(nothing | offsets))
    return None if state is None else described(state)


@pytest.mark.parametrize("semantics", list(Semantics))
def test_a_rebuilt_classic_group_is_that_of_its_last_value(semantics: Semantics) -> None:
    group = rebuilt(semantics, MEMBERS_AT_4, committed=[2, 9])
    assert group is not None
    assert (group.group_type, group.record_offset, len(group.members)) == (CLASSIC, 4, 1)


@pytest.mark.parametrize(
    ("semantics", "record", "offsets", "expected"),
    [
        (COORDINATOR, TOMBSTONE_AT_4, {}, None),
        # A commit behind the tombstone makes a simple group.
        (COORDINATOR, TOMBSTONE_AT_4, {"committed": [2]}, None),
        (COORDINATOR, TOMBSTONE_AT_4, {"committed": [2], "pending": [5]}, SIMPLE),
        (COORDINATOR, TOMBSTONE_AT_4, {"was_simple": True}, SIMPLE),
        # Kafka 3 knows classic groups, and those that have offsets.
        (SCALA, TOMBSTONE_AT_4, {}, None),
        (SCALA, EPOCH_AT_4, {}, None),
        (SCALA, EPOCH_AT_4, {"committed": [2]}, SIMPLE),
        (SCALA, TOMBSTONE_AT_4, {"committed": [2], "pending": [3]}, SIMPLE),
        (SCALA, None, {"pending": [3]}, SIMPLE),
    ],
)
def test_rebuilt_simple_groups(
    semantics: Semantics,
    record: GroupRecord | None,
    offsets: dict[str, Any],
    expected: Group | None,
) -> None:
    records = [] if record is None else [record]
    assert rebuilt(semantics, *records, **offsets) == expected


def test_a_rebuilt_group_with_a_refused_tombstone_has_a_warning() -> None:
    group = rebuilt(SCALA, TOMBSTONE_AT_4, pending=[3])
    assert group is not None
    assert group.replay_warning == "record offset 4: Unexpected unload of active group g"


def test_a_commit_between_the_records_of_a_rebuilt_group_changes_nothing() -> None:
    group = rebuilt(COORDINATOR, EPOCH_AT_4, committed=[2, 6], was_simple=True)
    assert group is not None
    assert (group.group_type, group.group_epoch, group.created_record_offset) == (CONSUMER, 7, 4)
    assert group.replay_warning is None
