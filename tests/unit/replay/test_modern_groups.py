"""What a consumer, share or streams group is after its records: states, members, owners, names."""

from __future__ import annotations

from typing import Any

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
)
from coordinator_state.replay.modern_groups import Part
from coordinator_state.wire.primitives import uuid_text
from tests.support.logs.group_log import NAMES, Log, T, U, value


class TestStates:
    """As `testGroupState` of ConsumerGroupTest and StreamsGroupTest."""

    def test_consumer(self) -> None:
        log = Log()
        log.put(CONSUMER, Part.GROUP, epoch=2)
        assert log.group.state == EMPTY
        log.put(CONSUMER, Part.MEMBER, "m")
        assert log.group.state == ASSIGNING
        log.put(CONSUMER, Part.TARGET_EPOCH, assignmentEpoch=2)
        assert log.group.state == RECONCILING
        log.put(CONSUMER, Part.CURRENT, "m", memberEpoch=2)
        assert log.group.state == STABLE
        log.put(CONSUMER, Part.CURRENT, "m", memberEpoch=2, state=1)
        assert (log.group.state, log.group.members[0].member_state) == (
            RECONCILING,
            "UNREVOKED_PARTITIONS",
        )

    def test_a_current_assignment_alone_is_a_member(self) -> None:
        log = Log()
        log.put(CONSUMER, Part.CURRENT, "m", memberEpoch=2)
        assert log.group.state == RECONCILING

    def test_share(self) -> None:
        log = Log()
        log.put(SHARE, Part.GROUP, epoch=9)
        assert log.group.state == EMPTY
        log.put(SHARE, Part.MEMBER, "m")
        assert log.group.state == STABLE

    def test_streams(self) -> None:
        log = Log()
        log.put(STREAMS, Part.GROUP, epoch=2, validatedTopologyEpoch=1)
        assert log.group.state == EMPTY
        log.put(STREAMS, Part.MEMBER, "m")
        assert (log.group.state, log.group.members[0].member_epoch) == (NOT_READY, None)
        log.put(STREAMS, Part.TOPOLOGY)
        assert log.group.state == ASSIGNING
        log.put(STREAMS, Part.TARGET_EPOCH, assignmentEpoch=2)
        assert log.group.state == RECONCILING
        log.put(STREAMS, Part.CURRENT, "m", memberEpoch=2)
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
    assigned = AssignedPartition(topic="t", topic_id=uuid_text(T), partition=0)
    revoked = AssignedPartition(topic=None, topic_id=uuid_text(U), partition=2)
    assert member.assignment == (assigned, revoked)
    assert member.target_assignment is not None
    assert [assigned.partition for assigned in member.target_assignment] == [0, 1]
    assert member.pending_revocation == (revoked,)
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
