"""Records of consumer, share and streams groups, and what they make of a group.

Tests that name one of Kafka's follow GroupMetadataManagerTest.java, ConsumerGroupTest.java and
StreamsGroupTest.java of 4.2.0 (group-coordinator/src/test/java/org/apache/kafka/coordinator/group).
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from coordinator_state.group_replay import MODERN_GROUPS, GroupRecord, GroupReplay
from coordinator_state.groups import (
    ASSIGNING,
    CLASSIC,
    CONSUMER,
    EMPTY,
    NOT_READY,
    RECONCILING,
    SHARE,
    STABLE,
    STREAMS,
    AssignedPartition,
    AssignedTask,
    Group,
    simple_group,
)
from coordinator_state.modern_groups import Part
from coordinator_state.primitives import uuid_text
from coordinator_state.record_types import OFFSET_COMMIT_TYPES, RECORD_TYPES
from coordinator_state.serde import decode_value, encode_value

T, U = UUID(int=11), UUID(int=12)
NAMES = {uuid_text(T): "t"}
TYPES = (CONSUMER, SHARE, STREAMS)
every_type = pytest.mark.parametrize("group_type", TYPES)


_MEMBER = {"clientId": "c", "clientHost": "/h"}
_CURRENT = {"memberEpoch": 1, "previousMemberEpoch": 0, "state": 0}
_TASKS: dict[str, Any] = {"activeTasks": [], "standbyTasks": [], "warmupTasks": []}
_REQUIRED: dict[int, dict[str, Any]] = {
    3: {"epoch": 1},
    5: {**_MEMBER, "subscribedTopicNames": []},
    7: {"topicPartitions": []},
    8: {**_CURRENT, "assignedPartitions": [], "partitionsPendingRevocation": []},
    10: {**_MEMBER, "subscribedTopicNames": []},
    11: {"epoch": 1, "metadataHash": 0},
    13: {"topicPartitions": []},
    14: {**_CURRENT, "assignedPartitions": []},
    17: {"epoch": 1, "metadataHash": 0},
    19: {**_MEMBER, "topologyEpoch": 1, "processId": "p", "clientTags": [], "userEndpoint": None},
    21: _TASKS,
    22: {**_CURRENT, "state": 1, **_TASKS, **{f"{name}PendingRevocation": [] for name in _TASKS}},
    23: {"epoch": 1, "subtopologies": []},
}


def record_type(group_type: str, part: Part) -> int:
    (number,) = (
        number
        for number, kind in MODERN_GROUPS.items()
        if kind.group_type == group_type and kind.parts[number] is part
    )
    return number


def value(number: int, **fields: Any) -> dict[str, Any]:
    """A value as it is read back, with the fields that must be there."""
    kind = RECORD_TYPES[number]
    return decode_value(kind, encode_value(kind, 0, _REQUIRED.get(number, {}) | fields)).fields


class Log:
    """Records of one log partition, replayed as they come."""

    def __init__(self) -> None:
        self.warnings: list[tuple[int, str]] = []
        self.replay = GroupReplay(
            on_warning=lambda offset, reason: self.warnings.append((offset, reason))
        )
        self.next_offset = 0

    def add(
        self, number: int, fields: dict[str, Any] | None, name: str = "", group_id: str = "g"
    ) -> None:
        record = GroupRecord(number, group_id, name, fields, self.next_offset)
        self.next_offset += 1
        self.replay.replay(record)

    def put(self, group_type: str, part: Part, name: str = "", **fields: Any) -> None:
        number = record_type(group_type, part)
        self.add(number, value(number, **fields), name)

    def drop(self, group_type: str, part: Part, name: str = "") -> None:
        self.add(record_type(group_type, part), None, name)

    def commit(self) -> None:
        self.replay.replay_offset_commit("g")
        self.next_offset += 1

    @property
    def group(self) -> Group:
        (group,) = self.replay.groups.values()
        return group

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason in self.warnings]


def a_group(group_type: str, *member_ids: str) -> Log:
    """A group as a coordinator writes it when members have joined and own nothing."""
    log = Log()
    for member in member_ids:
        log.put(group_type, Part.MEMBER, member)
    extra: dict[str, Any] = {"validatedTopologyEpoch": 1} if group_type == STREAMS else {}
    log.put(group_type, Part.GROUP, **extra)
    if group_type == STREAMS:
        log.put(group_type, Part.TOPOLOGY)
    for member in member_ids:
        log.put(group_type, Part.TARGET, member)
    log.put(group_type, Part.TARGET_EPOCH, assignmentEpoch=1)
    for member in member_ids:
        log.put(group_type, Part.CURRENT, member)
    return log


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
@pytest.mark.parametrize("part", list(Part))
def test_a_tombstone_of_an_unknown_group_is_nothing(group_type: str, part: Part) -> None:
    """As the second half of the `testReplay…Tombstone` tests (KAFKA-17306)."""
    for number, kind in MODERN_GROUPS.items():
        if kind.group_type == group_type and kind.parts[number] is part:
            log = Log()
            log.add(number, None, "m")
            assert (log.replay.states, log.warnings) == ({}, [])


@every_type
@pytest.mark.parametrize("part", [Part.MEMBER, Part.CURRENT, Part.TARGET])
def test_a_tombstone_of_an_unknown_member_is_nothing(group_type: str, part: Part) -> None:
    log = a_group(group_type, "m")
    log.drop(group_type, part, "other")

    assert [member.member_id for member in log.group.members] == ["m"]
    assert log.warnings == []


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


def classic(*members: str) -> dict[str, Any]:
    kind = RECORD_TYPES[2]
    fields = {
        "protocolType": "consumer",
        "generation": 4,
        "protocol": "range",
        "leader": None,
        "currentStateTimestamp": 1,
        "members": [
            {
                "memberId": member,
                "clientId": "c",
                "clientHost": "/h",
                "rebalanceTimeout": 1,
                "sessionTimeout": 1,
                "subscription": b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff",
                "assignment": b"",
            }
            for member in members
        ],
    }
    return decode_value(kind, encode_value(kind, 3, fields)).fields


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


class TestStates:
    """As `testGroupState` of ConsumerGroupTest and StreamsGroupTest."""

    def test_consumer(self) -> None:
        log = Log()
        log.put(CONSUMER, Part.GROUP)
        assert log.group.state == EMPTY
        log.put(CONSUMER, Part.MEMBER, "m")
        assert log.group.state == ASSIGNING
        log.put(CONSUMER, Part.TARGET_EPOCH, assignmentEpoch=1)
        assert log.group.state == RECONCILING
        log.put(CONSUMER, Part.CURRENT, "m")
        assert log.group.state == STABLE
        log.put(CONSUMER, Part.CURRENT, "m", state=1)
        assert (log.group.state, log.group.members[0].member_state) == (
            RECONCILING,
            "UNREVOKED_PARTITIONS",
        )

    def test_a_current_assignment_alone_is_a_member(self) -> None:
        log = Log()
        log.put(CONSUMER, Part.CURRENT, "m")
        assert log.group.state == RECONCILING

    def test_share(self) -> None:
        log = Log()
        log.put(SHARE, Part.GROUP, epoch=9)
        assert log.group.state == EMPTY
        log.put(SHARE, Part.MEMBER, "m")
        assert log.group.state == STABLE

    def test_streams(self) -> None:
        log = Log()
        log.put(STREAMS, Part.GROUP, validatedTopologyEpoch=1)
        assert log.group.state == EMPTY
        log.put(STREAMS, Part.MEMBER, "m")
        assert (log.group.state, log.group.members[0].member_epoch) == (NOT_READY, None)
        log.put(STREAMS, Part.TOPOLOGY)
        assert log.group.state == ASSIGNING
        log.put(STREAMS, Part.TARGET_EPOCH, assignmentEpoch=1)
        assert log.group.state == RECONCILING
        log.put(STREAMS, Part.CURRENT, "m")
        assert log.group.state == STABLE
        log.put(STREAMS, Part.TOPOLOGY, epoch=2)
        assert log.group.state == NOT_READY
        log.drop(STREAMS, Part.TOPOLOGY)
        assert log.group.state == NOT_READY

    @pytest.mark.parametrize(
        ("group_type", "code", "name"),
        [
            (CONSUMER, 0, "STABLE"),
            (CONSUMER, 2, "UNRELEASED_PARTITIONS"),
            (CONSUMER, 3, "UNKNOWN"),
            (STREAMS, 0, "UNKNOWN"),
            (STREAMS, 1, "STABLE"),
            (STREAMS, 2, "UNREVOKED_TASKS"),
            (STREAMS, 3, "UNRELEASED_TASKS"),
        ],
    )
    def test_of_members(self, group_type: str, code: int, name: str) -> None:
        log = Log()
        log.put(group_type, Part.CURRENT, "m", state=code)
        assert log.group.members[0].member_state == name


def test_what_a_member_of_a_consumer_group_is() -> None:
    log = Log()
    log.put(
        CONSUMER,
        Part.MEMBER,
        "m",
        instanceId="i",
        rackId="r",
        subscribedTopicNames=["t"],
        subscribedTopicRegex="u.*",
        rebalanceTimeoutMs=7,
        classicMemberMetadata={"sessionTimeoutMs": 8, "supportedProtocols": []},
    )
    log.add(16, value(16, topics=["u1", "u2"], version=1, timestamp=1), "u.*")
    log.put(CONSUMER, Part.TARGET, "m", topicPartitions=[{"topicId": T, "partitions": [1, 0]}])
    log.put(
        CONSUMER,
        Part.CURRENT,
        "m",
        assignedPartitions=[{"topicId": T, "partitions": [0]}],
        partitionsPendingRevocation=[{"topicId": U, "partitions": [2]}],
    )
    state = log.replay.states["g"]
    assert not isinstance(state, Group)
    group = state.described(NAMES)
    (member,) = group.members

    assert group.subscribed_topics == ("t", "u1", "u2")
    assert (member.group_instance_id, member.rack_id) == ("i", "r")
    assert (member.client_id, member.client_host) == ("c", "/h")
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (7, 8)
    assert (member.subscribed_topics, member.subscribed_regex) == (("t",), "u.*")
    assert member.assignment == (AssignedPartition(topic="t", topic_id=uuid_text(T), partition=0),)
    assert member.target_assignment is not None
    assert [assigned.partition for assigned in member.target_assignment] == [0, 1]
    assert member.pending_revocation == (
        AssignedPartition(topic=None, topic_id=uuid_text(U), partition=2),
    )
    log.add(16, None, "u.*")
    assert log.group.subscribed_topics == ("t",)


def test_topics_are_named_by_the_records_that_name_them() -> None:
    topics = [{"topicId": T, "topicName": "t"}]
    log = Log()
    log.add(4, value(4, topics=[{**topics[0], "numPartitions": 1, "partitionMetadata": []}]))
    log.put(CONSUMER, Part.CURRENT, "m", assignedPartitions=[{"topicId": T, "partitions": [0]}])
    (assigned,) = log.group.members[0].assignment or ()
    assert assigned.topic == "t"

    log = Log()
    initialized = [{**topics[0], "partitions": [0]}]
    log.add(15, value(15, initializingTopics=[], initializedTopics=initialized, deletingTopics=[]))
    log.put(SHARE, Part.CURRENT, "m", assignedPartitions=[{"topicId": T, "partitions": [0]}])
    (assigned,) = log.group.members[0].assignment or ()
    assert assigned.topic == "t"


def test_what_a_member_of_a_streams_group_is() -> None:
    tasks = [{"subtopologyId": "0", "partitions": [1, 0]}]
    log = Log()
    log.put(STREAMS, Part.MEMBER, "m", instanceId="i", rackId="r", rebalanceTimeoutMs=7)
    log.put(STREAMS, Part.TARGET, "m", activeTasks=tasks, standbyTasks=tasks)
    log.put(STREAMS, Part.CURRENT, "m", warmupTasks=tasks)
    topology = {
        "subtopologyId": "0",
        "sourceTopics": ["t"],
        "sourceTopicRegex": [],
        "stateChangelogTopics": [],
        "repartitionSinkTopics": [],
        "repartitionSourceTopics": [
            {"name": "r", "partitions": 1, "replicationFactor": 1, "topicConfigs": []}
        ],
        "copartitionGroups": [],
    }
    log.put(STREAMS, Part.TOPOLOGY, subtopologies=[topology])
    (member,) = log.group.members

    assert log.group.subscribed_topics == ("r", "t")
    assert (member.group_instance_id, member.rebalance_timeout_ms) == ("i", 7)
    assert member.tasks == tuple(
        AssignedTask(task_type="warmup", subtopology_id="0", partition=p) for p in (0, 1)
    )
    assert member.target_tasks is not None
    assert [task.task_type for task in member.target_tasks] == ["active"] * 2 + ["standby"] * 2
    assert (member.assignment, member.subscribed_topics) == (None, None)


def test_a_partition_is_owned_by_two_members() -> None:
    """As `testUpdatingMemberUpdatesPartitionEpochWhenPartitionIsStillOwned…`."""
    owned = [{"topicId": T, "partitions": [0]}]
    log = Log()
    log.put(CONSUMER, Part.CURRENT, "m", memberEpoch=5, assignedPartitions=owned)
    log.put(CONSUMER, Part.CURRENT, "n", memberEpoch=6, partitionsPendingRevocation=owned)
    assert log.warnings == []
    log.put(CONSUMER, Part.CURRENT, "o", memberEpoch=6, assignedPartitions=owned)

    assert log.reasons == [
        f"Cannot set the epoch of {uuid_text(T)}-0 to 6 because the partition is still owned at "
        "epoch 6"
    ]
    assert [len(member.assignment or ()) for member in log.group.members] == [1, 0, 1]


@pytest.mark.parametrize(
    ("number", "fields"),
    [
        (7, {"topicPartitions": [{"topicId": T, "partitions": [0]}] * 2}),
        (8, {"partitionsPendingRevocation": [{"topicId": T, "partitions": []}] * 2}),
        (13, {"topicPartitions": [{"topicId": T, "partitions": [0]}] * 2}),
        (14, {"assignedPartitions": [{"topicId": T, "partitions": [0]}] * 2}),
        (17, {"lastAssignmentConfigs": [{"key": "k", "value": "v"}] * 2}),
        (19, {"clientTags": [{"key": "k", "value": "v"}] * 2}),
        (21, {"warmupTasks": [{"subtopologyId": "0", "partitions": [0]}] * 2}),
    ],
)
def test_what_kafka_makes_a_map_of_names_nothing_twice(number: int, fields: dict[str, Any]) -> None:
    log = Log()
    log.add(number, value(number, **fields), "m")

    (reason,) = log.reasons
    assert reason.startswith("Duplicate key ")
    assert log.group.replay_warning == f"record offset 0: {reason}"


def test_a_task_of_a_streams_group_has_an_epoch_or_none_has() -> None:
    tasks = {"subtopologyId": "0", "partitions": [0, 1]}
    log = Log()
    log.put(STREAMS, Part.CURRENT, "m", activeTasks=[{**tasks, "assignmentEpochs": [1, 2]}])
    assert log.warnings == []
    log.put(STREAMS, Part.CURRENT, "m", activeTasks=[{**tasks, "assignmentEpochs": [1]}])

    assert log.reasons == [
        "Assignment epochs must be provided for all partitions. Subtopology 0 has 2 partitions but "
        "1 epochs"
    ]


def test_an_offset_commit_makes_a_simple_group_of_an_unknown_id_only() -> None:
    log = a_group(CONSUMER)
    log.commit()
    assert log.group.group_type == CONSUMER
    log.add(2, None)
    log.commit()
    assert log.group == simple_group("g")
