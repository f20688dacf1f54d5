"""Groups, their members, and what records make of them.

Tests that name one of Kafka's follow the Scala GroupMetadataManagerTest of 3.9
(core/src/test/scala/unit/kafka/coordinator/group); `test_loader.py` has those that need a log.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.groups import (
    CLASSIC,
    CONSUMER,
    EMPTY,
    GROUP_TYPE_OF_RECORD,
    NO_RECORD_OFFSET,
    SHARE,
    STABLE,
    STREAMS,
    UNKNOWN,
    AssignedPartition,
    Group,
    GroupReplay,
    classic_group,
    simple_group,
)
from coordinator_state.record_types import GROUP_METADATA_TYPE, OFFSET_COMMIT_TYPES, RECORD_TYPES
from coordinator_state.serde import decode_value, encode_value


def member(member_id: str = "member1", **fields: Any) -> dict[str, Any]:
    """A member as a decoded GroupMetadata value has it."""
    return {
        "memberId": member_id,
        "groupInstanceId": None,
        "clientId": "clientId",
        "clientHost": "clientHost",
        "rebalanceTimeout": 60_000,
        "sessionTimeout": 10_000,
        "subscription": encode_subscription({"topics": ["foo"], "userData": None}),
        "assignment": b"",
        **fields,
    }


def group_value(*members: dict[str, Any], **fields: Any) -> dict[str, Any]:
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


def test_a_simple_group_is_what_an_offset_commit_makes() -> None:
    assert simple_group("g") == Group(
        group_id="g",
        group_type=CLASSIC,
        state=EMPTY,
        protocol_type="",
        protocol=None,
        leader=None,
        generation=0,
        state_timestamp_ms=None,
        members=(),
        record_offset=NO_RECORD_OFFSET,
        replay_warning=None,
    )
    assert simple_group("g").is_simple


def test_load_consumer_group() -> None:
    """As `testLoadConsumerGroup`."""
    group = classic_group("g", group_value(member(groupInstanceId="bar")), 7)

    assert (group.group_type, group.state, group.generation) == (CLASSIC, STABLE, 27)
    assert (group.protocol_type, group.protocol, group.leader) == ("consumer", "range", "member1")
    assert (group.state_timestamp_ms, group.record_offset) == (1234, 7)
    assert not group.is_simple
    (only,) = group.members
    assert (only.member_id, only.group_instance_id) == ("member1", "bar")
    assert (only.client_id, only.client_host) == ("clientId", "clientHost")
    assert (only.rebalance_timeout_ms, only.session_timeout_ms) == (60_000, 10_000)
    assert only.subscribed_topics == ("foo",)


def test_load_empty_consumer_group() -> None:
    """As `testLoadEmptyConsumerGroup`."""
    group = classic_group("g", group_value(protocol=None, leader=None), 0)

    assert (group.state, group.generation, group.members) == (EMPTY, 27, ())
    assert (group.protocol_type, group.protocol, group.leader) == ("consumer", None, None)
    assert not group.is_simple


def test_load_group_with_static_member() -> None:
    """As `testloadGroupWithStaticMember`."""
    static = member("staticMemberId", groupInstanceId="bar")
    group = classic_group("g", group_value(static, member("dynamicMemberId")), 0)

    assert {m.member_id: m.group_instance_id for m in group.members} == {
        "staticMemberId": "bar",
        "dynamicMemberId": None,
    }


def test_load_consumer_group_with_faulty_consumer_protocol() -> None:
    """As `testLoadConsumerGroupWithFaultyConsumerProtocol`: the group is there, its topics not."""
    group = classic_group("g", group_value(member(subscription=b"")), 0)

    assert (group.state, group.protocol) == (STABLE, "range")
    (only,) = group.members
    assert (only.subscribed_topics, only.rack_id, only.subscription) == (None, None, b"")
    assert only.assignment == ()


def test_a_faulty_assignment_leaves_the_subscription_alone() -> None:
    (only,) = classic_group("g", group_value(member(assignment=b"\x00")), 0).members

    assert (only.assignment, only.assignment_bytes) == (None, b"\x00")
    assert only.subscribed_topics == ("foo",)


def test_what_a_member_subscribes_to_and_owns() -> None:
    subscription = encode_subscription(
        {"topics": ["t", "u"], "userData": b"\x00", "rackId": "r1", "generationId": 3}
    )
    assignment = encode_assignment(
        {
            "assignedPartitions": [
                {"topic": "t", "partitions": [2, 0]},
                {"topic": "u", "partitions": []},
                {"topic": "v", "partitions": [1]},
            ],
            "userData": None,
        }
    )
    value = group_value(member(subscription=subscription, assignment=assignment))
    (only,) = classic_group("g", value, 0).members

    assert (only.subscribed_topics, only.rack_id) == (("t", "u"), "r1")
    assert only.assignment == (
        AssignedPartition(topic="t", partition=2),
        AssignedPartition(topic="t", partition=0),
        AssignedPartition(topic="v", partition=1),
    )
    assert (only.subscription, only.assignment_bytes) == (subscription, assignment)


@pytest.mark.parametrize("protocol_type", ["connect", "sr", ""])
def test_the_bytes_of_other_protocol_types_are_not_read(protocol_type: str) -> None:
    (only,) = classic_group("g", group_value(member(), protocolType=protocol_type), 0).members

    assert (only.subscribed_topics, only.assignment) == (None, None)
    assert only.subscription


@pytest.mark.parametrize("version", range(5))
def test_read_from_old_group_metadata(version: int) -> None:
    """As `testReadFromOldGroupMetadata`, `testCurrentStateTimestampForAllGroupMetadataVersions`."""
    fields = group_value(member(rebalanceTimeout=30_000))
    if version < 2:
        del fields["currentStateTimestamp"]
    if version < 1:
        del fields["members"][0]["rebalanceTimeout"]
    raw = encode_value(RECORD_TYPES[2], version, fields)
    group = classic_group("g", decode_value(RECORD_TYPES[2], raw).fields, 0)

    assert (group.generation, group.protocol_type, group.protocol) == (27, "consumer", "range")
    assert group.state_timestamp_ms == (1234 if version >= 2 else None)
    (only,) = group.members
    assert (only.member_id, only.group_instance_id) == ("member1", None)
    # v0 has no rebalance timeout: the session timeout stands for it.
    assert only.rebalance_timeout_ms == (30_000 if version >= 1 else 10_000)


def test_a_member_id_that_is_there_twice_counts_once() -> None:
    first, other, again = member("m", clientId="1"), member("n"), member("m", clientId="2")
    group = classic_group("g", group_value(first, other, again), 0)

    assert [(m.member_id, m.client_id) for m in group.members] == [("m", "2"), ("n", "clientId")]


def test_a_group_value_without_a_protocol_type_is_simple() -> None:
    """What the new coordinator writes when the first member joins an unknown id."""
    value = group_value(protocolType="", generation=0, protocol=None, leader=None)

    assert classic_group("g", value, 3).is_simple


def test_every_record_type_but_offset_commits_belongs_to_a_type_of_group() -> None:
    assert set(GROUP_TYPE_OF_RECORD) == set(RECORD_TYPES) - set(OFFSET_COMMIT_TYPES)
    assert {t: GROUP_TYPE_OF_RECORD[t] for t in (2, 3, 8, 9, 11, 15, 16, 17, 23)} == {
        **{2: CLASSIC, 3: CONSUMER, 8: CONSUMER, 16: CONSUMER},
        **{9: SHARE, 11: SHARE, 15: SHARE, 17: STREAMS, 23: STREAMS},
    }


def test_an_offset_commit_makes_a_simple_group_of_an_unknown_id_only() -> None:
    replay = GroupReplay()
    replay.replay_offset_commit("g")
    replay.replay_record(GROUP_METADATA_TYPE, "h", group_value(member()), 4)
    replay.replay_offset_commit("h")

    assert replay.groups["g"] == simple_group("g")
    assert replay.groups["h"].record_offset == 4


def test_a_group_value_replaces_whatever_the_id_named() -> None:
    replay = GroupReplay()
    for record_offset, record_type in enumerate([1, 2, 3, 11, 17]):
        if record_type == 1:
            replay.replay_offset_commit("g")
        else:
            value = group_value(generation=1) if record_type == 2 else {}
            replay.replay_record(record_type, "g", value, record_offset)
        replay.replay_record(GROUP_METADATA_TYPE, "g", group_value(member()), 100 + record_offset)

        assert replay.groups["g"] == classic_group("g", group_value(member()), 100 + record_offset)


@pytest.mark.parametrize("record_type", [2, 3, 11, 17])
def test_a_group_tombstone_removes_a_group_of_any_type(record_type: int) -> None:
    replay = GroupReplay()
    replay.replay_record(record_type, "g", group_value() if record_type == 2 else {}, 0)

    replay.replay_record(GROUP_METADATA_TYPE, "g", None, 1)

    assert replay.groups == {}


@pytest.mark.parametrize("record_type", sorted(GROUP_TYPE_OF_RECORD))
def test_a_tombstone_of_an_unknown_group_is_nothing(record_type: int) -> None:
    """Under compaction values may be gone whose tombstones are still there (KAFKA-17306)."""
    replay = GroupReplay()
    replay.replay_record(record_type, "g", None, 0)

    assert replay.groups == {}


@pytest.mark.parametrize(
    ("record_type", "group_type"),
    [(t, group_type) for t, group_type in GROUP_TYPE_OF_RECORD.items() if t != 2],
)
def test_a_value_of_a_type_that_is_not_replayed_still_names_the_group(
    record_type: int, group_type: str
) -> None:
    replay = GroupReplay()
    replay.replay_offset_commit("g")
    replay.replay_record(record_type, "g", {}, 5)

    group = replay.groups["g"]
    assert (group.group_type, group.protocol_type) == (group_type, group_type)
    assert (group.state, group.record_offset) == (UNKNOWN, 5)
    assert group.replay_warning == (
        f"state and members of {group_type} groups are not replayed by this version"
    )


@pytest.mark.parametrize(
    ("metadata", "other"), [(3, 5), (3, 8), (11, 10), (11, 14), (17, 19), (17, 23)]
)
def test_only_the_tombstone_of_its_metadata_record_removes_such_a_group(
    metadata: int, other: int
) -> None:
    replay = GroupReplay()
    replay.replay_record(metadata, "g", {}, 0)

    replay.replay_record(other, "g", None, 1)
    assert set(replay.groups) == {"g"}

    replay.replay_record(metadata, "g", None, 2)
    assert replay.groups == {}


@pytest.mark.parametrize(("metadata", "foreign"), [(3, 11), (11, 17), (17, 3)])
def test_the_metadata_tombstone_of_another_type_of_group_is_nothing(
    metadata: int, foreign: int
) -> None:
    replay = GroupReplay()
    replay.replay_record(metadata, "g", {}, 0)
    replay.replay_record(foreign, "g", None, 1)

    assert replay.groups["g"].record_offset == 0
