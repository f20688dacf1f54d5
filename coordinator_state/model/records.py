"""The records of coordinators, in the versions that Kafka 4.2 and 3.9 write.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/
GroupCoordinatorRecordHelpers.java at 4.2.0; GroupMetadataManager.scala (`offsetCommitValue`,
`groupMetadataValue`) at 3.9.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from coordinator_state.model.log import KeyAndValue
from coordinator_state.records.record_types import (
    GROUP_METADATA_TYPE,
    NO_LEADER_EPOCH,
    RECORD_TYPES,
    RecordType,
)
from coordinator_state.records.serde import encode_key, encode_value
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, Semantics

Assigned = frozenset[tuple[UUID, int]]
"""Partitions by topic id and number."""

_OFFSET_COMMIT: Final = RECORD_TYPES[1]
_GROUP_METADATA: Final = RECORD_TYPES[GROUP_METADATA_TYPE]
_GROUP_METADATA_VERSION: Final = 3
_GROUP: Final = RECORD_TYPES[3]
_PARTITIONS: Final = RECORD_TYPES[4]
_MEMBER: Final = RECORD_TYPES[5]
_TARGET_EPOCH: Final = RECORD_TYPES[6]
_TARGET: Final = RECORD_TYPES[7]
_CURRENT: Final = RECORD_TYPES[8]
_CACHED_KEYS: Final = 10_000
_OFFSET_COMMIT_VERSIONS: Final = {Semantics.COORDINATOR: 4, Semantics.SCALA: 3}


def record(
    record_type: RecordType,
    key: Mapping[str, Any],
    value: Mapping[str, Any] | None,
    version: int = 0,
) -> KeyAndValue:
    """A record of a type; a tombstone if the value is None."""
    raw = None if value is None else encode_value(record_type, version, value)
    return encode_key(record_type, key), raw


# --- offsets


def offset_commit(key: OffsetKey, offset: CommittedOffset, semantics: Semantics) -> KeyAndValue:
    """An OffsetCommit record, as Kafka 4.2 or 3.9 writes it."""
    epoch = offset.leader_epoch
    fields = {
        "offset": offset.committed_offset,
        "leaderEpoch": NO_LEADER_EPOCH if epoch is None else epoch,
        "metadata": offset.metadata,
        "commitTimestamp": offset.commit_timestamp_ms,
    }
    value = encode_value(_OFFSET_COMMIT, _OFFSET_COMMIT_VERSIONS[semantics], fields)
    return _offset_key(key), value


def offset_tombstone(key: OffsetKey) -> KeyAndValue:
    """The tombstone of a committed offset."""
    return _offset_key(key), None


@lru_cache(maxsize=_CACHED_KEYS)
def _offset_key(key: OffsetKey) -> bytes:
    fields = {"group": key.group_id, "topic": key.topic, "partition": key.partition}
    return encode_key(_OFFSET_COMMIT, fields)


# --- classic groups


def group_metadata(group_id: str, value: Mapping[str, Any] | None) -> KeyAndValue:
    """A GroupMetadata record; a tombstone if the value is None."""
    return record(_GROUP_METADATA, {"group": group_id}, value, _GROUP_METADATA_VERSION)


# --- consumer groups (KIP-848)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> KeyAndValue:
    """ConsumerGroupMetadata: the group epoch."""
    return record(_GROUP, {"groupId": group_id}, {"epoch": epoch, "metadataHash": metadata_hash})


def target_epoch(group_id: str, epoch: int) -> KeyAndValue:
    """ConsumerGroupTargetAssignmentMetadata: the epoch of the target assignment."""
    return record(_TARGET_EPOCH, {"groupId": group_id}, {"assignmentEpoch": epoch})


def member_subscription(group_id: str, member_id: str, value: Mapping[str, Any]) -> KeyAndValue:
    """ConsumerGroupMemberMetadata: a member's identity and subscription."""
    absent = {"rackId": None, "serverAssignor": None, "classicMemberMetadata": None}
    fields = {**absent, "subscribedTopicRegex": "", **value}
    return record(_MEMBER, _member_key(group_id, member_id), fields)


def target_assignment(group_id: str, member_id: str, target: Assigned) -> KeyAndValue:
    """ConsumerGroupTargetAssignmentMember: a member's target assignment."""
    value = {"topicPartitions": topic_partitions(target)}
    return record(_TARGET, _member_key(group_id, member_id), value)


def current_assignment(group_id: str, member_id: str, value: Mapping[str, Any]) -> KeyAndValue:
    """ConsumerGroupCurrentMemberAssignment: a member's current assignment."""
    return record(_CURRENT, _member_key(group_id, member_id), value)


def removed_member(group_id: str, member_id: str) -> list[KeyAndValue]:
    """The tombstones of a member."""
    key = _member_key(group_id, member_id)
    return [record(record_type, key, None) for record_type in (_CURRENT, _TARGET, _MEMBER)]


def removed_group(group_id: str) -> list[KeyAndValue]:
    """The tombstones of a group without members."""
    group = {"groupId": group_id}
    return [
        record(record_type, group, None) for record_type in (_TARGET_EPOCH, _PARTITIONS, _GROUP)
    ]


def topic_partitions(assigned: Iterable[tuple[UUID, int]]) -> list[dict[str, Any]]:
    """An assignment in the form of records: the partitions of each topic."""
    by_topic: dict[UUID, list[int]] = defaultdict(list)
    for topic_id, partition in sorted(assigned):
        by_topic[topic_id].append(partition)
    return [{"topicId": topic_id, "partitions": ps} for topic_id, ps in by_topic.items()]


def _member_key(group_id: str, member_id: str) -> dict[str, str]:
    return {"groupId": group_id, "memberId": member_id}
