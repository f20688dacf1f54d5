"""The table of record types, beside Kafka's own (generated CoordinatorRecordType at 4.2.0)."""

from __future__ import annotations

from coordinator_state.records.record_types import (
    RECORD_TYPES,
)

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


def test_every_type_has_kafkas_number_and_name() -> None:
    assert {number: t.name for number, t in RECORD_TYPES.items()} == KAFKA_NAMES
    assert all(t.id == number for number, t in RECORD_TYPES.items())
    assert RECORD_TYPES[1].key_name == "OffsetCommitKey"
    assert RECORD_TYPES[1].value_name == "OffsetCommitValue"


def test_numbers_that_no_release_up_to_4_3_writes_are_left_out() -> None:
    assert not {-1, 18, 24, 32767} & RECORD_TYPES.keys()
