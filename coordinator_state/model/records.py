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
)
from coordinator_state.records.serde import encode_key, encode_value
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, Semantics
from coordinator_state.wire.primitives import uuid_from_text

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
    key = encode_key(_GROUP_METADATA, {"group": group_id})
    if value is None:
        return key, None
    return key, encode_value(_GROUP_METADATA, _GROUP_METADATA_VERSION, value)


@lru_cache(maxsize=_CACHED_KEYS)
def _offset_key(key: OffsetKey) -> bytes:
    fields = {"group": key.group_id, "topic": key.topic, "partition": key.partition}
    return encode_key(_OFFSET_COMMIT, fields)
