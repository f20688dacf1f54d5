"""Kafka's own cases of replaying records of streams groups: GroupMetadataManagerTest, 4.2.0."""

from __future__ import annotations

from typing import Any

from coordinator_state.replay.groups import (
    STREAMS,
    AssignedTask,
)
from coordinator_state.replay.modern_groups import LEFT_EPOCH, Part
from tests.support.logs.group_log import Log, a_group, only_member

THREE_TASKS = {
    "activeTasks": [{"subtopologyId": "s", "partitions": [0, 1, 2]}],
    "standbyTasks": [{"subtopologyId": "s", "partitions": [3, 4, 5]}],
    "warmupTasks": [{"subtopologyId": "s", "partitions": [6, 7, 8]}],
}
AS_TASKS = tuple(
    AssignedTask(task_type=kind, subtopology_id="s", partition=partition)
    for kind, partitions in (("active", (0, 1, 2)), ("standby", (3, 4, 5)), ("warmup", (6, 7, 8)))
    for partition in partitions
)


def test_replay_streams_group_member_metadata() -> None:
    log = Log()
    log.put(
        STREAMS,
        Part.MEMBER,
        "member",
        clientId="clientid",
        clientHost="clienthost",
        rackId="rackid",
        instanceId="instanceid",
        rebalanceTimeoutMs=1000,
        topologyEpoch=10,
        processId="processid",
        userEndpoint={"host": "localhost", "port": 9999},
        clientTags=[{"key": "key", "value": "value"}],
    )
    member = only_member(log)
    assert (member.client_id, member.client_host, member.rack_id) == (
        *("clientid", "clienthost", "rackid"),
    )
    assert (member.group_instance_id, member.rebalance_timeout_ms) == ("instanceid", 1000)


def _deleted_members(log: Log) -> list[str]:
    """Replays the tombstones of member m1 in the wrong and then in the right order."""
    log.drop(STREAMS, Part.CURRENT, "m1")
    log.drop(STREAMS, Part.TARGET, "m1")
    log.drop(STREAMS, Part.MEMBER, "m1")
    return log.reasons


def test_replay_streams_group_member_metadata_tombstone_existing() -> None:
    expected = "Received a tombstone record to delete member m1 but did not receive "
    log = a_group(STREAMS, "m1")
    log.drop(STREAMS, Part.MEMBER, "m1")
    assert log.reasons == [f"{expected}StreamsGroupCurrentMemberAssignmentValue tombstone."]

    log = a_group(STREAMS, "m1")
    log.drop(STREAMS, Part.CURRENT, "m1")
    log.drop(STREAMS, Part.MEMBER, "m1")
    assert log.reasons == [f"{expected}StreamsGroupTargetAssignmentMetadataValue tombstone."]

    log = a_group(STREAMS, "m1")
    assert _deleted_members(log) == []
    assert log.group.members == ()


def test_replay_streams_group_epoch_tombstone_existing() -> None:
    expected = "Received a tombstone record to delete group g but "
    log = a_group(STREAMS, "m1")
    log.drop(STREAMS, Part.GROUP)
    assert log.reasons == [f"{expected}the group still has 1 members."]

    log = a_group(STREAMS, "m1")
    _deleted_members(log)
    log.drop(STREAMS, Part.GROUP)
    missing = "did not receive StreamsGroupTargetAssignmentMetadataValue tombstone."
    assert log.reasons == [f"{expected}{missing}"]

    log = a_group(STREAMS, "m1")
    _deleted_members(log)
    log.drop(STREAMS, Part.TARGET_EPOCH)
    log.drop(STREAMS, Part.GROUP)
    assert (log.replay.states, log.reasons) == ({}, [])


def test_replay_streams_group_target_assignment_member() -> None:
    log = a_group(STREAMS, "m1")
    log.put(STREAMS, Part.TARGET, "m1", **THREE_TASKS)
    assert only_member(log).target_tasks == AS_TASKS
    log.drop(STREAMS, Part.TARGET, "m1")
    assert only_member(log).target_tasks == ()


def test_replay_streams_group_target_assignment_metadata_tombstone_existing() -> None:
    log = Log()
    log.put(STREAMS, Part.TARGET, "m1", **THREE_TASKS)
    log.put(STREAMS, Part.TARGET_EPOCH, assignmentEpoch=10)
    log.drop(STREAMS, Part.TARGET_EPOCH)
    assert log.reasons == [
        "Received a tombstone record to delete target assignment of g "
        "but the assignment still has 1 members."
    ]

    log = Log()
    log.put(STREAMS, Part.TARGET, "m1", **THREE_TASKS)
    log.drop(STREAMS, Part.TARGET, "m1")
    log.drop(STREAMS, Part.TARGET_EPOCH)
    assert (log.group.assignment_epoch, log.reasons) == (-1, [])


def _run(log: Log, member: str, epoch: int, **tasks: Any) -> None:
    log.put(
        STREAMS,
        Part.CURRENT,
        member,
        **{"memberEpoch": epoch, "previousMemberEpoch": epoch - 1, **tasks},
    )


def test_replay_streams_group_current_member_assignment() -> None:
    log = Log()
    _run(log, "member", 10, state=3, **THREE_TASKS)
    member = only_member(log)
    assert (member.member_epoch, member.member_state) == (10, "UNRELEASED_TASKS")
    assert member.tasks == AS_TASKS


def test_replay_streams_group_current_member_assignment_tombstone_existing() -> None:
    log = a_group(STREAMS, "m1")
    _run(log, "m1", 1, **THREE_TASKS)
    log.drop(STREAMS, Part.CURRENT, "m1")
    assert (only_member(log).member_epoch, only_member(log).tasks) == (LEFT_EPOCH, ())


def test_replay_streams_group_topology() -> None:
    subtopology = {
        "subtopologyId": "subtopology-1",
        "sourceTopics": ["source-topic"],
        "sourceTopicRegex": [],
        "stateChangelogTopics": [],
        "repartitionSinkTopics": ["sink-topic"],
        "repartitionSourceTopics": [],
        "copartitionGroups": [],
    }
    log = a_group(STREAMS, "m1")
    log.put(STREAMS, Part.TOPOLOGY, epoch=12, subtopologies=[subtopology])
    assert list(log.group.subscribed_topics or ()) == ["source-topic"]
    log.drop(STREAMS, Part.TOPOLOGY)
    assert not log.group.subscribed_topics
    assert log.reasons == []


def _active(subtopology: str, partition: int, epoch: int) -> dict[str, Any]:
    task = {"subtopologyId": subtopology, "partitions": [partition], "assignmentEpochs": [epoch]}
    return {"activeTasks": [task]}


def _as_task(subtopology: str, partition: int) -> AssignedTask:
    return AssignedTask(task_type="active", subtopology_id=subtopology, partition=partition)


def test_replay_streams_group_current_member_assignment_with_compaction() -> None:
    log = Log()
    for member in ("A", "B"):
        log.put(STREAMS, Part.MEMBER, member, processId=f"process of {member}")
    _run(log, "A", 11, **_active("s", 0, 11))
    _run(log, "B", 12, **_active("s", 0, 12))
    _run(log, "A", 13, **_active("s", 1, 13))
    a, b = log.group.members
    assert (a.tasks, b.tasks, log.reasons) == ((_as_task("s", 1),), (_as_task("s", 0),), [])


def test_replay_streams_group_current_member_assignment_unowned_topology_with_compaction() -> None:
    log = Log()
    _run(log, "A", 11, **_active("foo", 0, 11))
    _run(log, "B", 12, **_active("foo", 0, 12))
    _run(log, "B", 13)
    _run(log, "A", 14, **_active("bar", 0, 14))
    assert [member.tasks for member in log.group.members] == [(_as_task("bar", 0),), ()]
    assert log.reasons == []
