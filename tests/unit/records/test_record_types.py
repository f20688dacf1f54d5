"""The table of record types, beside Kafka's own (generated CoordinatorRecordType at 4.2.0)."""

from __future__ import annotations

import pytest

from coordinator_state.records.record_types import (
    GROUP_METADATA_TYPE,
    OFFSET_COMMIT_TYPES,
    RECORD_TYPES,
)
from coordinator_state.wire.schema import Field, Schema

KAFKA_NAMES = {
    0: "LegacyOffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    9: "ShareGroupPartitionMetadata",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}

OF_A_MEMBER = {5, 7, 8, 10, 13, 14, 19, 21, 22}


def test_every_type_has_kafkas_number_and_name() -> None:
    assert {number: t.name for number, t in RECORD_TYPES.items()} == KAFKA_NAMES
    assert all(t.id == number for number, t in RECORD_TYPES.items())
    assert RECORD_TYPES[1].key_name == "OffsetCommitKey"
    assert RECORD_TYPES[1].value_name == "OffsetCommitValue"


def test_numbers_that_no_release_up_to_4_3_writes_are_left_out() -> None:
    assert not {-1, 18, 24, 32767} & RECORD_TYPES.keys()


@pytest.mark.parametrize("number", sorted(KAFKA_NAMES))
def test_a_key_names_the_group_first(number: int) -> None:
    fields = [field.name for field in RECORD_TYPES[number].key_fields]

    if number in OFFSET_COMMIT_TYPES:
        assert fields == ["group", "topic", "partition"]
    elif number == GROUP_METADATA_TYPE:
        assert fields == ["group"]
    elif number == 16:
        assert fields == ["groupId", "regularExpression"]
    else:
        assert fields == (["groupId", "memberId"] if number in OF_A_MEMBER else ["groupId"])


def test_values_of_types_0_to_2_have_versions_0_to_4_and_the_others_one() -> None:
    for number, record_type in RECORD_TYPES.items():
        value = record_type.value
        assert value.name == record_type.value_name
        assert value.versions == record_type.versions == ((0, 4) if number <= 2 else (0, 0))
        flexible = [version for version in range(5) if value.is_flexible(version)]
        assert flexible == ([4] if number <= 2 else [0, 1, 2, 3, 4])


def test_fields_of_an_offset_commit_by_version() -> None:
    value = RECORD_TYPES[1].value
    base = ["offset", "metadata", "commitTimestamp"]
    with_epoch = ["offset", "leaderEpoch", "metadata", "commitTimestamp"]

    assert [_fields(value, version) for version in range(5)] == [
        base,
        [*base, "expireTimestamp"],
        base,
        with_epoch,
        [*with_epoch, "topicId"],
    ]


def test_fields_of_a_group_and_its_members_by_version() -> None:
    value = RECORD_TYPES[2].value
    group = ["protocolType", "generation", "protocol", "leader", "members"]
    dated_group = [*group[:4], "currentStateTimestamp", "members"]
    assert [_fields(value, v) for v in range(5)] == [group, group, *[dated_group] * 3]

    members = Schema(name="member", versions=(0, 4), fields=value.fields[-1].fields)
    tail = ["sessionTimeout", "subscription", "assignment"]
    client = ["clientId", "clientHost"]
    assert [_fields(members, v) for v in range(4)] == [
        ["memberId", *client, *tail],
        ["memberId", *client, "rebalanceTimeout", *tail],
        ["memberId", *client, "rebalanceTimeout", *tail],
        ["memberId", "groupInstanceId", *client, "rebalanceTimeout", *tail],
    ]


def _fields(schema: Schema, version: int) -> list[str]:
    return [field.name for field in schema.fields if field.is_in(version)]


def test_a_field_is_in_the_versions_it_names_both_ends_included() -> None:
    field = Field(name="f", type="int8", versions=(1, 3))

    assert [version for version in range(6) if field.is_in(version)] == [1, 2, 3]


def test_a_schema_without_a_flexible_version_is_never_flexible() -> None:
    schema = Schema(name="s", versions=(0, 9), fields=())

    assert not any(schema.is_flexible(version) for version in range(10))
