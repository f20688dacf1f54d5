"""A consumer, share or streams group after its records: states, members, owners, names.

Tests that name one of Kafka's follow GroupMetadataManagerTest.java, ConsumerGroupTest.java and
StreamsGroupTest.java of 4.2.0.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from coordinator_state.replay.groups import (
    ASSIGNING,
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
    GroupMember,
)
from coordinator_state.replay.modern_groups import LEFT_EPOCH, Part
from coordinator_state.wire.primitives import uuid_text
from tests.support.logs.group_log import Log, T, U, only_member, value

Step: TypeAlias = "tuple[Part, dict[str, Any] | None, str]"
"""A record by its part and its fields, None for a tombstone, and the state of the group then."""

STATES: dict[str, list[Step]] = {
    CONSUMER: [
        (Part.GROUP, {"epoch": 2}, EMPTY),
        (Part.MEMBER, {}, ASSIGNING),
        (Part.TARGET_EPOCH, {"assignmentEpoch": 2}, RECONCILING),
        (Part.CURRENT, {"memberEpoch": 2}, STABLE),
        (Part.CURRENT, {"memberEpoch": 2, "state": 1}, RECONCILING),
    ],
    SHARE: [(Part.GROUP, {"epoch": 9}, EMPTY), (Part.MEMBER, {}, STABLE)],
    STREAMS: [
        (Part.GROUP, {"epoch": 2, "validatedTopologyEpoch": 1}, EMPTY),
        (Part.MEMBER, {}, NOT_READY),
        (Part.TOPOLOGY, {}, ASSIGNING),
        (Part.TARGET_EPOCH, {"assignmentEpoch": 2}, RECONCILING),
        (Part.CURRENT, {"memberEpoch": 2}, STABLE),
        (Part.TOPOLOGY, {"epoch": 2}, NOT_READY),
        (Part.TOPOLOGY, None, NOT_READY),
    ],
}


@pytest.mark.parametrize(("group_type", "steps"), STATES.items())
def test_states(group_type: str, steps: list[Step]) -> None:
    """As `testGroupState` of ConsumerGroupTest and StreamsGroupTest."""
    log = Log()
    for part, fields, state in steps:
        name = "m" if part in {Part.MEMBER, Part.CURRENT} else ""
        if fields is None:
            log.drop(group_type, part, name)
        else:
            log.put(group_type, part, name, **fields)
        assert log.group.state == state


@pytest.mark.parametrize(
    ("group_type", "names"),
    [
        (CONSUMER, ["STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS", "UNKNOWN"]),
        (STREAMS, ["UNKNOWN", "STABLE", "UNREVOKED_TASKS", "UNRELEASED_TASKS"]),
    ],
)
def test_states_of_members(group_type: str, names: list[str]) -> None:
    for code, name in enumerate(names):
        log = Log()
        log.put(group_type, Part.CURRENT, "m", state=code)
        assert only_member(log).member_state == name


def test_a_member_of_a_consumer_group() -> None:
    """As `testReplayConsumerGroup…` of every part."""
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
    log.put(CONSUMER, Part.REGULAR_EXPRESSION, "u.*", topics=["u1", "u2"])
    log.put(CONSUMER, Part.TARGET, "m", topicPartitions=[{"topicId": T, "partitions": [1, 0]}])
    log.put(
        CONSUMER,
        Part.CURRENT,
        "m",
        memberEpoch=10,
        assignedPartitions=[{"topicId": T, "partitions": [0]}],
        partitionsPendingRevocation=[{"topicId": U, "partitions": [2]}],
    )
    state = log.replay.states["g"]
    assert not isinstance(state, Group)
    assert state.unnamed_topic_ids() == {uuid_text(T), uuid_text(U)}
    group = state.described({uuid_text(T): "t"})
    (member,) = group.members

    assert group.subscribed_topics == ("t", "u1", "u2")
    assert (member.member_id, member.group_instance_id, member.rack_id) == ("m", "i", "r")
    assert (member.client_id, member.client_host, member.member_epoch) == ("c", "/h", 10)
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (7, 8)
    assert (member.subscribed_topics, member.subscribed_regex) == (("t",), "u.*")
    assigned = AssignedPartition(topic="t", topic_id=uuid_text(T), partition=0)
    revoked = AssignedPartition(topic=None, topic_id=uuid_text(U), partition=2)
    assert member.assignment == (assigned, revoked)
    assert member.target_assignment is not None
    assert [assigned.partition for assigned in member.target_assignment] == [0, 1]
    assert member.pending_revocation == (revoked,)

    log.drop(CONSUMER, Part.REGULAR_EXPRESSION, "u.*")
    assert log.group.subscribed_topics == ("t",)
    log.drop(CONSUMER, Part.CURRENT, "m")
    assert (only_member(log).member_epoch, only_member(log).assignment) == (LEFT_EPOCH, ())
    log.drop(CONSUMER, Part.TARGET, "m")
    assert only_member(log).target_assignment == ()


@pytest.mark.parametrize(
    ("group_type", "fields"),
    [
        (
            CONSUMER,
            {"topics": [{"topicName": "t", "numPartitions": 1, "partitionMetadata": []}]},
        ),
        (SHARE, {"initializedTopics": [{"topicName": "t", "partitions": [0]}]}),
        (SHARE, {"initializingTopics": [{"topicName": "t", "partitions": [0]}]}),
    ],
)
def test_topics_are_named_by_the_records_that_name_them(
    group_type: str, fields: dict[str, Any]
) -> None:
    """As `testReplayConsumerGroupPartitionMetadata`, and its tombstone."""
    log = Log()
    named: dict[str, Any] = {name: [{"topicId": T, **topic}] for name, (topic,) in fields.items()}
    log.put(group_type, Part.PARTITIONS, **named)
    log.put(group_type, Part.CURRENT, "m", assignedPartitions=[{"topicId": T, "partitions": [0]}])
    (assigned,) = only_member(log).assignment or ()
    assert assigned.topic == "t"
    log.drop(group_type, Part.PARTITIONS)
    (assigned,) = only_member(log).assignment or ()
    assert (assigned.topic, log.warnings) == (None, [])


def test_a_member_of_a_streams_group() -> None:
    """As `testReplayStreamsGroup…` of every part."""
    lists = {
        f"{kind}Tasks": [{"subtopologyId": "0", "partitions": partitions}]
        for kind, partitions in (("active", [1, 0]), ("standby", [2]), ("warmup", [3]))
    }
    tasks = tuple(
        AssignedTask(task_type=kind, subtopology_id="0", partition=partition)
        for kind, partition in (("active", 0), ("active", 1), ("standby", 2), ("warmup", 3))
    )
    log = Log()
    log.put(STREAMS, Part.MEMBER, "m", instanceId="i", rackId="r", rebalanceTimeoutMs=7)
    assert only_member(log).member_epoch is None
    log.put(STREAMS, Part.TARGET, "m", **lists)
    log.put(STREAMS, Part.CURRENT, "m", memberEpoch=10, **lists)
    topology = {
        "subtopologyId": "0",
        "sourceTopics": ["t"],
        "sourceTopicRegex": [],
        "stateChangelogTopics": [],
        "repartitionSinkTopics": ["sink"],
        "repartitionSourceTopics": [
            {"name": "r", "partitions": 1, "replicationFactor": 1, "topicConfigs": []}
        ],
        "copartitionGroups": [],
    }
    log.put(STREAMS, Part.TOPOLOGY, subtopologies=[topology])
    (member,) = log.group.members

    assert list(log.group.subscribed_topics or ()) == ["r", "t"]
    assert (member.client_id, member.client_host, member.rack_id) == ("c", "/h", "r")
    assert (member.group_instance_id, member.rebalance_timeout_ms) == ("i", 7)
    assert (member.member_epoch, member.tasks, member.target_tasks) == (10, tasks, tasks)
    assert (member.assignment, member.subscribed_topics) == (None, None)

    log.drop(STREAMS, Part.TARGET, "m")
    assert (only_member(log).tasks, only_member(log).target_tasks) == (tasks, ())
    log.drop(STREAMS, Part.CURRENT, "m")
    assert (only_member(log).member_epoch, only_member(log).tasks) == (LEFT_EPOCH, ())
    log.drop(STREAMS, Part.TOPOLOGY)
    assert log.group.subscribed_topics == ()
    assert log.warnings == []


@pytest.mark.parametrize("group_type", [CONSUMER, STREAMS])
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        # The record in which A gave the place up is compacted away.
        ([("A", 11, 0), ("B", 12, 0), ("A", 13, 1)], {"A": [1], "B": [0]}),
        ([("A", 11, 0), ("B", 12, 0), ("B", 13, None), ("A", 14, 2)], {"A": [2], "B": []}),
    ],
)
def test_current_assignments_with_compaction(
    group_type: str, steps: list[tuple[str, int, int | None]], expected: dict[str, list[int]]
) -> None:
    """As `testReplay…CurrentMemberAssignment…WithCompaction`; place 2 is of another topic."""
    log = Log()
    for member_id, epoch, place in steps:
        lists = {} if place is None else _assigned(group_type, place, epoch)
        log.put(group_type, Part.CURRENT, member_id, memberEpoch=epoch, **lists)
    assert {member.member_id: _places(member) for member in log.group.members} == expected
    assert log.warnings == []


def _assigned(group_type: str, place: int, epoch: int) -> dict[str, Any]:
    topic, partition = divmod(place, 2)
    if group_type == CONSUMER:
        return {"assignedPartitions": [{"topicId": (T, U)[topic], "partitions": [partition]}]}
    task = {"subtopologyId": "tu"[topic], "partitions": [partition], "assignmentEpochs": [epoch]}
    return {"activeTasks": [task]}


def _places(member: GroupMember) -> list[int]:
    topics = ["t", "u", uuid_text(T), uuid_text(U)]
    owned = [
        *((task.subtopology_id, task.partition) for task in member.tasks or ()),
        *((assigned.topic_id or "", assigned.partition) for assigned in member.assignment or ()),
    ]
    return [2 * (topics.index(topic) % 2) + partition for topic, partition in owned]


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
    assert [len(member.assignment or ()) for member in log.group.members] == [1, 1, 1]


@pytest.mark.parametrize(
    ("number", "fields"),
    [
        (7, {"topicPartitions": [{"topicId": T, "partitions": [0]}] * 2}),
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
