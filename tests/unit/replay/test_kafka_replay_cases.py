"""Kafka's own cases of replaying group records: testReplay… of GroupMetadataManagerTest, 4.2.0.

Each function is named after the case it follows; `tests/kafka-cases.md` has the list.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state.replay.group_replay import MODERN_GROUPS
from coordinator_state.replay.groups import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STABLE,
    STREAMS,
    AssignedPartition,
)
from coordinator_state.replay.modern_groups import Part
from coordinator_state.wire.primitives import uuid_text
from tests.support.logs.group_log import Log, T, U, a_group, classic, only_member, record_type

TOMBSTONES = [
    (CONSUMER, Part.GROUP),
    (CONSUMER, Part.PARTITIONS),
    (CONSUMER, Part.MEMBER),
    (CONSUMER, Part.TARGET),
    (CONSUMER, Part.TARGET_EPOCH),
    (CONSUMER, Part.CURRENT),
    (CONSUMER, Part.REGULAR_EXPRESSION),
    (STREAMS, Part.GROUP),
    (STREAMS, Part.MEMBER),
    (STREAMS, Part.TARGET),
    (STREAMS, Part.TARGET_EPOCH),
    (STREAMS, Part.CURRENT),
    (STREAMS, Part.TOPOLOGY),
    # Kafka has no case of a share group.
    (SHARE, Part.GROUP),
    (SHARE, Part.PARTITIONS),
    (SHARE, Part.MEMBER),
    (SHARE, Part.TARGET),
    (SHARE, Part.TARGET_EPOCH),
    (SHARE, Part.CURRENT),
]


def partitions(*numbers: int) -> list[dict[str, Any]]:
    return [{"topicId": T, "partitions": list(numbers)}]


def owned(*numbers: int, topic_id: Any = T) -> tuple[AssignedPartition, ...]:
    text = uuid_text(topic_id)
    return tuple(AssignedPartition(topic=None, partition=n, topic_id=text) for n in numbers)


@pytest.mark.parametrize(("group_type", "part"), TOMBSTONES)
def test_tombstone_of_a_group_that_is_not_there(group_type: str, part: Part) -> None:
    log = Log()
    log.drop(group_type, part, "m1")
    assert (log.replay.states, log.reasons) == ({}, [])


@pytest.mark.parametrize("group_type", [CONSUMER, STREAMS, SHARE])
@pytest.mark.parametrize("part", [Part.MEMBER, Part.CURRENT, Part.TARGET])
def test_tombstone_of_a_member_that_is_not_there(group_type: str, part: Part) -> None:
    log = Log()
    log.put(group_type, Part.GROUP, epoch=10)
    log.drop(group_type, part, "m1")
    assert (log.group.members, log.reasons) == ((), [])


@pytest.mark.parametrize("is_default", [True, False])
def test_replay_group_metadata_records(is_default: bool) -> None:
    value = classic("member-0", "member-1")
    value |= {"generation": 1, "leader": "member-0", "currentStateTimestamp": 1234}
    for number, member in enumerate(value["members"]):
        member |= {
            "groupInstanceId": f"group-instance-id-{number}",
            "sessionTimeout": 4000,
            "rebalanceTimeout": -1 if is_default else 9000,
            "assignment": b"\2",
        }
    log = Log()
    log.add(2, value)

    group = log.group
    assert (group.group_type, group.state, group.generation) == (CLASSIC, STABLE, 1)
    assert (group.protocol_type, group.protocol, group.leader) == ("consumer", "range", "member-0")
    assert group.state_timestamp_ms == 1234
    assert [
        (m.member_id, m.group_instance_id, m.session_timeout_ms, m.rebalance_timeout_ms)
        for m in group.members
    ] == [
        (f"member-{n}", f"group-instance-id-{n}", 4000, 4000 if is_default else 9000)
        for n in range(2)
    ]
    assert {member.assignment_bytes for member in group.members} == {b"\2"}


def test_replay_consumer_group_member_metadata() -> None:
    log = Log()
    log.put(
        CONSUMER,
        Part.MEMBER,
        "member",
        clientId="clientid",
        clientHost="clienthost",
        serverAssignor="range",
        rackId="rackid",
        subscribedTopicNames=["foo"],
    )
    member = only_member(log)
    assert (member.member_id, member.client_id, member.client_host, member.rack_id) == (
        *("member", "clientid", "clienthost", "rackid"),
    )
    assert member.subscribed_topics == ("foo",)


@pytest.mark.parametrize("group_type", [CONSUMER, STREAMS])
def test_replay_group_metadata(group_type: str) -> None:
    log = Log()
    log.put(group_type, Part.GROUP, epoch=10)
    assert log.group.group_epoch == 10


def test_replay_consumer_group_partition_metadata() -> None:
    log = Log()
    topic = {"topicId": T, "topicName": "bar", "numPartitions": 10, "partitionMetadata": []}
    log.put(CONSUMER, Part.PARTITIONS, topics=[topic])
    assert log.group.group_type == CONSUMER
    log.drop(CONSUMER, Part.PARTITIONS)
    assert (log.group.group_type, log.reasons) == (CONSUMER, [])


def test_replay_consumer_group_target_assignment_member() -> None:
    log = a_group(CONSUMER, "m1")
    log.put(CONSUMER, Part.TARGET, "m1", topicPartitions=partitions(0, 1, 2))
    assert only_member(log).target_assignment == owned(0, 1, 2)


@pytest.mark.parametrize("group_type", [CONSUMER, STREAMS])
def test_replay_target_assignment_metadata(group_type: str) -> None:
    log = Log()
    log.put(group_type, Part.TARGET_EPOCH, assignmentEpoch=10)
    assert log.group.assignment_epoch == 10


def test_replay_consumer_group_current_member_assignment() -> None:
    log = Log()
    log.put(
        CONSUMER,
        Part.CURRENT,
        "member",
        memberEpoch=10,
        previousMemberEpoch=9,
        state=2,
        assignedPartitions=partitions(0, 1, 2),
    )
    member = only_member(log)
    assert (member.member_epoch, member.member_state) == (10, "UNRELEASED_PARTITIONS")
    assert member.assignment == owned(0, 1, 2)


def _own(log: Log, member: str, epoch: int, *topic_partitions: dict[str, Any]) -> None:
    log.put(
        CONSUMER,
        Part.CURRENT,
        member,
        memberEpoch=epoch,
        previousMemberEpoch=epoch - 1,
        assignedPartitions=list(topic_partitions),
    )


def test_replay_consumer_group_current_member_assignment_with_compaction() -> None:
    """The record in which A gave partition 0 up is compacted away."""
    log = Log()
    _own(log, "A", 11, *partitions(0))
    _own(log, "B", 12, *partitions(0))
    _own(log, "A", 13, *partitions(1))
    a, b = log.group.members
    assert (a.assignment, b.assignment, log.reasons) == (owned(1), owned(0), [])


def test_replay_consumer_group_current_member_assignment_unowned_topic_with_compaction() -> None:
    log = Log()
    _own(log, "A", 11, *partitions(0))
    _own(log, "B", 12, *partitions(0))
    _own(log, "B", 13)
    _own(log, "A", 14, {"topicId": U, "partitions": [0]})
    a, b = log.group.members
    assert (a.assignment, b.assignment) == (owned(0, topic_id=U), ())
    assert log.reasons == []


def test_replay_consumer_group_regular_expression() -> None:
    resolved = {"topics": ["abc", "abcd"], "version": 10, "timestamp": 12345}
    log = Log()
    log.put(CONSUMER, Part.REGULAR_EXPRESSION, "abc*", **resolved)
    assert log.group.subscribed_topics == ("abc", "abcd")
    log.drop(CONSUMER, Part.REGULAR_EXPRESSION, "abc*")
    assert not log.group.subscribed_topics


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        (Part.GROUP, {}),
        (Part.MEMBER, {}),
        (Part.TARGET_EPOCH, {"assignmentEpoch": 1}),
        (Part.TARGET, {}),
        (Part.CURRENT, {}),
        (
            Part.PARTITIONS,
            {"initializedTopics": [], "initializingTopics": [], "deletingTopics": []},
        ),
    ],
)
def test_share_group_records_no_exception_on_replay(part: Part, fields: dict[str, Any]) -> None:
    log = Log()
    log.put(SHARE, part, "member", **fields)
    assert (log.group.group_type, log.reasons) == (SHARE, [])


def test_every_replayed_type_has_its_tombstone_here() -> None:
    assert {record_type(group_type, part) for group_type, part in TOMBSTONES} == set(MODERN_GROUPS)
