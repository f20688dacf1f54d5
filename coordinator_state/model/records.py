"""The records of coordinators, in the versions that Kafka 4.2 and 3.9 write.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/
GroupCoordinatorRecordHelpers.java at 4.2.0; GroupMetadataManager.scala (`offsetCommitValue`,
`groupMetadataValue`) at 3.9.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from coordinator_state.model.log import KeyAndValue
from coordinator_state.records.record_types import (
    GROUP_METADATA_TYPE,
    NO_LEADER_EPOCH,
    RECORD_TYPES,
    RecordType,
)
from coordinator_state.records.serde import encode_key, encode_value
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, Semantics
from coordinator_state.wire.primitives import uuid_from_text

GROUP: Final = RECORD_TYPES[3]
PARTITIONS: Final = RECORD_TYPES[4]
MEMBER: Final = RECORD_TYPES[5]
TARGET_EPOCH: Final = RECORD_TYPES[6]
TARGET: Final = RECORD_TYPES[7]
CURRENT: Final = RECORD_TYPES[8]
_OFFSET_COMMIT: Final = RECORD_TYPES[1]
_GROUP_METADATA: Final = RECORD_TYPES[GROUP_METADATA_TYPE]
_GROUP_METADATA_VERSION: Final = 3
_EXPIRE_TIMESTAMP_VERSION: Final = 1
"""The only version with an expire timestamp. It has no leader epoch and no topic id."""
_CACHED_KEYS: Final = 10_000
_OFFSET_COMMIT_VERSIONS: Final = {Semantics.COORDINATOR: 4, Semantics.SCALA: 3}


def offset_commit(key: OffsetKey, offset: CommittedOffset, semantics: Semantics) -> KeyAndValue:
    """An OffsetCommit record, as Kafka 4.2 or 3.9 writes it."""
    fields: dict[str, Any] = {
        "offset": offset.committed_offset,
        "metadata": offset.metadata,
        "commitTimestamp": offset.commit_timestamp_ms,
    }
    if offset.expire_timestamp_ms is not None:
        fields["expireTimestamp"] = offset.expire_timestamp_ms
        return _offset_key(key), encode_value(_OFFSET_COMMIT, _EXPIRE_TIMESTAMP_VERSION, fields)
    epoch = offset.leader_epoch
    fields["leaderEpoch"] = NO_LEADER_EPOCH if epoch is None else epoch
    if offset.topic_id is not None:
        fields["topicId"] = uuid_from_text(offset.topic_id)
    return _offset_key(key), encode_value(
        _OFFSET_COMMIT, _OFFSET_COMMIT_VERSIONS[semantics], fields
    )


def offset_tombstone(key: OffsetKey) -> KeyAndValue:
    """The tombstone of a committed offset."""
    return _offset_key(key), None


def group_metadata(group_id: str, value: Mapping[str, Any] | None) -> KeyAndValue:
    """A GroupMetadata record; a tombstone if the value is None."""
    return record(_GROUP_METADATA, {"group": group_id}, value, _GROUP_METADATA_VERSION)


@lru_cache(maxsize=_CACHED_KEYS)
def _offset_key(key: OffsetKey) -> bytes:
    fields = {"group": key.group_id, "topic": key.topic, "partition": key.partition}
    return encode_key(_OFFSET_COMMIT, fields)


def removed_group(group_id: str, member_ids: list[str]) -> list[KeyAndValue]:
    """The tombstones of a group and its members."""
    members = [member_key(group_id, member_id) for member_id in member_ids]
    group = {"groupId": group_id}
    return [
        *(record(CURRENT, key, None) for key in members),
        *(record(TARGET, key, None) for key in members),
        record(TARGET_EPOCH, group, None),
        *(record(MEMBER, key, None) for key in members),
        record(PARTITIONS, group, None),
        record(GROUP, group, None),
    ]


def member_key(group_id: str, member_id: str) -> dict[str, str]:
    """The key of a member's record."""
    return {"groupId": group_id, "memberId": member_id}


def record(
    record_type: RecordType,
    key: Mapping[str, Any],
    value: Mapping[str, Any] | None,
    version: int = 0,
) -> KeyAndValue:
    """A record of a type; a tombstone if the value is None."""
    raw = None if value is None else encode_value(record_type, version, value)
    return encode_key(record_type, key), raw
