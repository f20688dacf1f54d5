"""Simple and classic groups and their members.

Tests that name one of Kafka's follow the Scala GroupMetadataManagerTest of 3.9
(core/src/test/scala/unit/kafka/coordinator/group); `test_loader.py` has those that need a log.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import decode_value, encode_value
from coordinator_state.replay.classic_groups import classic_group, refusal
from coordinator_state.replay.groups import (
    CLASSIC,
    EMPTY,
    NO_RECORD_OFFSET,
    STABLE,
    AssignedPartition,
    GroupMember,
    simple_group,
)

Json = dict[str, Any]

SUBSCRIPTION = encode_subscription(
    {"topics": ["t", "u"], "userData": b"\x00", "rackId": "r1", "generationId": 3}
)
ASSIGNMENT = encode_assignment(
    {
        "assignedPartitions": [
            {"topic": "t", "partitions": [2, 0]},
            {"topic": "u", "partitions": []},
            {"topic": "v", "partitions": [1]},
        ],
        "userData": None,
    }
)
ASSIGNED = tuple(
    AssignedPartition(topic=topic, partition=p) for topic, p in (("t", 2), ("t", 0), ("v", 1))
)


def member(member_id: str = "member1", **fields: Any) -> Json:
    """A member as a decoded GroupMetadata value has it."""
    return {
        "memberId": member_id,
        "groupInstanceId": None,
        "clientId": "clientId",
        "clientHost": "clientHost",
        "rebalanceTimeout": 60_000,
        "sessionTimeout": 10_000,
        "subscription": SUBSCRIPTION,
        "assignment": ASSIGNMENT,
        **fields,
    }


def group_value(*members: Json, **fields: Any) -> Json:
    """A decoded GroupMetadata value."""
    return {
        "protocolType": "consumer",
        "generation": 27,
        "protocol": "range",
        "leader": "member1",
        "currentStateTimestamp": 1234,
        "members": list(members),
        **fields,
    }


def only_member(value: Json) -> GroupMember:
    (only,) = classic_group("g", value, 0).members
    return only


def test_a_simple_group_has_no_protocol_and_no_record() -> None:
    group = simple_group("g")
    assert (group.group_type, group.state, group.protocol_type) == (CLASSIC, EMPTY, "")
    assert (group.members, group.record_offset) == ((), NO_RECORD_OFFSET)
    assert group.is_simple
    # What the new coordinator writes when the first member joins an unknown id.
    value = group_value(protocolType="", generation=0, protocol=None, leader=None)
    assert classic_group("g", value, 3).is_simple


@pytest.mark.parametrize("version", range(5))
def test_read_from_old_group_metadata(version: int) -> None:
    """As `testReadFromOldGroupMetadata`, `testCurrentStateTimestampForAllGroupMetadataVersions`."""
    fields = group_value(member(rebalanceTimeout=30_000))
    if version >= 3:
        fields["members"][0]["groupInstanceId"] = "bar"
    if version < 2:
        del fields["currentStateTimestamp"]
    if version < 1:
        del fields["members"][0]["rebalanceTimeout"]
    raw = encode_value(RECORD_TYPES[2], version, fields)
    group = classic_group("g", decode_value(RECORD_TYPES[2], raw).fields, 0)

    assert (group.group_type, group.state, group.generation) == (CLASSIC, STABLE, 27)
    assert (group.protocol_type, group.protocol, group.leader) == ("consumer", "range", "member1")
    assert group.state_timestamp_ms == (1234 if version >= 2 else None)
    assert group.subscribed_topics == ("t", "u")
    assert group.members == (
        GroupMember(
            member_id="member1",
            group_instance_id="bar" if version >= 3 else None,
            client_id="clientId",
            client_host="clientHost",
            rack_id="r1",
            # v0 has no rebalance timeout: the session timeout stands for it.
            rebalance_timeout_ms=30_000 if version >= 1 else 10_000,
            session_timeout_ms=10_000,
            subscribed_topics=("t", "u"),
            assignment=ASSIGNED,
            subscription_bytes=SUBSCRIPTION,
            assignment_bytes=ASSIGNMENT,
        ),
    )


def test_load_consumer_group_with_faulty_consumer_protocol() -> None:
    """As `testLoadConsumerGroupWithFaultyConsumerProtocol`: the group is there, its topics not."""
    only = only_member(group_value(member(subscription=b"")))
    assert (only.subscribed_topics, only.rack_id, only.subscription_bytes) == (None, None, b"")
    assert only.assignment == ASSIGNED
    only = only_member(group_value(member(assignment=b"\x00")))
    assert (only.assignment, only.assignment_bytes) == (None, b"\x00")
    assert only.subscribed_topics == ("t", "u")
    assert only_member(group_value(member(assignment=b""))).assignment == ()


@pytest.mark.parametrize("protocol_type", ["connect", "sr", ""])
def test_the_bytes_of_other_protocol_types_are_not_read(protocol_type: str) -> None:
    only = only_member(group_value(member(), protocolType=protocol_type))
    assert (only.subscribed_topics, only.assignment) == (None, None)
    assert only.subscription_bytes


def test_a_member_id_that_is_there_twice_counts_once() -> None:
    first, other, again = member("m", clientId="1"), member("n"), member("m", clientId="2")
    group = classic_group("g", group_value(first, other, again), 0)

    assert [(m.member_id, m.client_id) for m in group.members] == [("m", "2"), ("n", "clientId")]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([member("a"), member("b")], None),
        ([member("a", groupInstanceId="i"), member("b", groupInstanceId="j")], None),
        (
            [member("a", groupInstanceId="i"), member("b", groupInstanceId="i")],
            "Static member with groupInstanceId=i cannot be added to group g since it is already "
            "a member.",
        ),
        # Kafka compares how many members support a protocol with how many there are.
        ([member("a"), member("a")], None),
        (
            [member("a"), member("a"), member("b")],
            "None of the member's protocols can be supported.",
        ),
    ],
)
def test_what_a_coordinator_would_not_load(members: list[Json], expected: str | None) -> None:
    assert refusal("g", group_value(*members)) == expected


def test_without_a_leader_the_first_member_leads() -> None:
    group = classic_group("g", group_value(member("b"), member("a"), leader=None), 0)
    assert group.leader == "b"
