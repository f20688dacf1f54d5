"""The record types of `__consumer_offsets` as a table, which `serde` reads.

A key starts with its record type as int16 (the "key version" of older Kafka), a value with its
version as int16. Keys are never flexible. This module has all key layouts and the value layouts of
types 0 to 2; `group_record_values` has the others.

Source: group-coordinator/src/main/resources/common/message/*.json at 4.0.0, 4.1.1, 4.2.0;
core/src/main/resources/common/message at 3.9.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coordinator_state.records.group_record_values import EARLY_ACCESS_VALUES, GROUP_RECORD_VALUES
from coordinator_state.wire.primitives import ZERO_UUID
from coordinator_state.wire.schema import ANY_VERSION, Field, Schema

NO_LEADER_EPOCH: Final = -1
"""`RecordBatch.NO_PARTITION_LEADER_EPOCH`: the commit has no leader epoch."""
NO_TIMESTAMP: Final = -1
"""`OffsetCommitRequest.DEFAULT_TIMESTAMP`: no own expiry, or no time of the last state change."""
NO_PRODUCER_ID: Final = -1
"""`RecordBatch.NO_PRODUCER_ID`: the batch came from a producer without idempotence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordType:
    """A record type: the number in its key, and the layouts of its key and value.

    `early_access_value` is a second layout that a value may have under the same version number.
    """

    id: int
    name: str
    key_fields: tuple[Field, ...]
    value: Schema
    early_access_value: Schema | None = None

    @property
    def key_name(self) -> str:
        """Kafka's class name of the key."""
        return f"{self.name}Key"

    @property
    def versions(self) -> tuple[int, int]:
        """The first and last value version that can be read."""
        return self.value.versions


def _since(version: int) -> tuple[int, int]:
    return (version, ANY_VERSION)


_OFFSET_COMMIT_KEY = (
    Field(name="group", type="string"),
    Field(name="topic", type="string"),
    Field(name="partition", type="int32"),
)

# v0: Kafka 0.8.2. v1: 0.9, adds expireTimestamp. v2: 2.1, KIP-211, removes expireTimestamp.
# v3: 2.1, KIP-320, adds leaderEpoch between offset and metadata.
# v4: adds topicId; 3.4.1 reads it (KIP-915), 4.1 writes it.
_OFFSET_COMMIT_VALUE_FIELDS = (
    Field(name="offset", type="int64"),
    Field(name="leaderEpoch", type="int32", versions=_since(3), default=NO_LEADER_EPOCH),
    Field(name="metadata", type="string"),
    Field(name="commitTimestamp", type="int64"),
    Field(name="expireTimestamp", type="int64", versions=(1, 1), default=NO_TIMESTAMP),
    Field(name="topicId", type="uuid", versions=_since(4), tag=0, default=ZERO_UUID),
)

# v0: 0.9. v1: 0.10.1, adds rebalanceTimeout. v2: 2.1, adds currentStateTimestamp.
# v3: 2.3, adds groupInstanceId.
# v4: flexible; 3.4.1 and later read it (KIP-915), no release up to 4.3 writes it.
_GROUP_METADATA_VALUE_FIELDS = (
    Field(name="protocolType", type="string"),
    Field(name="generation", type="int32"),
    Field(name="protocol", type="string", is_nullable=True),
    Field(name="leader", type="string", is_nullable=True),
    Field(
        name="currentStateTimestamp",
        type="int64",
        versions=_since(2),
        default=NO_TIMESTAMP,
    ),
    Field(
        name="members",
        type="struct",
        is_array=True,
        fields=(
            Field(name="memberId", type="string"),
            Field(
                name="groupInstanceId",
                type="string",
                versions=_since(3),
                is_nullable=True,
            ),
            Field(name="clientId", type="string"),
            Field(name="clientHost", type="string"),
            Field(name="rebalanceTimeout", type="int32", versions=_since(1), default=-1),
            Field(name="sessionTimeout", type="int32"),
            Field(name="subscription", type="bytes"),
            Field(name="assignment", type="bytes"),
        ),
    ),
)

_GROUP_KEY = (Field(name="groupId", type="string"),)
_MEMBER_KEY = (
    Field(name="groupId", type="string"),
    Field(name="memberId", type="string"),
)


def _offset_commit(record_type: int, name: str) -> RecordType:
    return RecordType(
        id=record_type,
        name=name,
        key_fields=_OFFSET_COMMIT_KEY,
        value=Schema(
            name=f"{name}Value",
            versions=(0, 4),
            first_flexible=4,
            fields=_OFFSET_COMMIT_VALUE_FIELDS,
        ),
    )


def _group_record(
    record_type: int, name: str, key_fields: tuple[Field, ...] = _GROUP_KEY
) -> RecordType:
    return RecordType(
        id=record_type,
        name=name,
        key_fields=key_fields,
        value=GROUP_RECORD_VALUES[record_type],
        early_access_value=EARLY_ACCESS_VALUES.get(record_type),
    )


LEGACY_OFFSET_COMMIT_TYPE: Final = 0
OFFSET_COMMIT_TYPES: Final = (LEGACY_OFFSET_COMMIT_TYPE, 1)
GROUP_METADATA_TYPE: Final = 2

RECORD_TYPES: Final[dict[int, RecordType]] = {
    record_type.id: record_type
    for record_type in (
        # Up to 4.0, brokers accept any OffsetCommitValue with a type-0 key; since 4.1 only v0.
        _offset_commit(0, "LegacyOffsetCommit"),
        _offset_commit(1, "OffsetCommit"),
        RecordType(
            id=2,
            name="GroupMetadata",
            key_fields=(Field(name="group", type="string"),),
            value=Schema(
                name="GroupMetadataValue",
                versions=(0, 4),
                first_flexible=4,
                fields=_GROUP_METADATA_VALUE_FIELDS,
            ),
        ),
        _group_record(3, "ConsumerGroupMetadata"),
        _group_record(4, "ConsumerGroupPartitionMetadata"),
        _group_record(5, "ConsumerGroupMemberMetadata", _MEMBER_KEY),
        _group_record(6, "ConsumerGroupTargetAssignmentMetadata"),
        _group_record(7, "ConsumerGroupTargetAssignmentMember", _MEMBER_KEY),
        _group_record(8, "ConsumerGroupCurrentMemberAssignment", _MEMBER_KEY),
        # Only in 4.0's early access of share groups; removed in 4.1.
        _group_record(9, "ShareGroupPartitionMetadata"),
        _group_record(10, "ShareGroupMemberMetadata", _MEMBER_KEY),
        _group_record(11, "ShareGroupMetadata"),
        _group_record(12, "ShareGroupTargetAssignmentMetadata"),
        _group_record(13, "ShareGroupTargetAssignmentMember", _MEMBER_KEY),
        _group_record(14, "ShareGroupCurrentMemberAssignment", _MEMBER_KEY),
        _group_record(15, "ShareGroupStatePartitionMetadata"),
        _group_record(
            16,
            "ConsumerGroupRegularExpression",
            (*_GROUP_KEY, Field(name="regularExpression", type="string")),
        ),
        _group_record(17, "StreamsGroupMetadata"),
        _group_record(19, "StreamsGroupMemberMetadata", _MEMBER_KEY),
        _group_record(20, "StreamsGroupTargetAssignmentMetadata"),
        _group_record(21, "StreamsGroupTargetAssignmentMember", _MEMBER_KEY),
        _group_record(22, "StreamsGroupCurrentMemberAssignment", _MEMBER_KEY),
        _group_record(23, "StreamsGroupTopology"),
    )
}
