"""The records of consumer groups: keys, values, and the tombstones of a group.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/
GroupCoordinatorRecordHelpers.java at 4.2.0.
"""

from __future__ import annotations

from typing import Any, Final

from coordinator_state.model.log import KeyAndValue
from coordinator_state.records.record_types import RECORD_TYPES, RecordType
from coordinator_state.records.serde import encode_key, encode_value

GROUP: Final = RECORD_TYPES[3]
PARTITIONS: Final = RECORD_TYPES[4]
MEMBER: Final = RECORD_TYPES[5]
TARGET_EPOCH: Final = RECORD_TYPES[6]
TARGET: Final = RECORD_TYPES[7]
CURRENT: Final = RECORD_TYPES[8]


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
    record_type: RecordType, key: dict[str, str], value: dict[str, Any] | None
) -> KeyAndValue:
    """A record of a type; a tombstone if the value is None."""
    raw = None if value is None else encode_value(record_type, 0, value)
    return encode_key(record_type, key), raw
