"""Logs of group records by hand, replayed as they come."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import decode_value, encode_value
from coordinator_state.replay.group_replay import MODERN_GROUPS, GroupRecord, GroupReplay
from coordinator_state.replay.groups import CONSUMER, SHARE, STREAMS, Group, GroupMember
from coordinator_state.replay.modern_groups import Part
from coordinator_state.replay.releases import NEWEST_RELEASE, Release
from tests.support.logs.logs import group_value

T, U = UUID(int=11), UUID(int=12)
TYPES = (CONSUMER, SHARE, STREAMS)
every_type = pytest.mark.parametrize("group_type", TYPES)

_FIELDS = {"clientId": "c", "clientHost": "/h", "previousMemberEpoch": 0, "metadataHash": 0}


def record_type(group_type: str, part: Part) -> int:
    (number,) = (
        number
        for number, kind in MODERN_GROUPS.items()
        if kind.group_type == group_type and kind.parts[number] is part
    )
    return number


def value(number: int, **fields: Any) -> dict[str, Any]:
    """A value as it is read back; numbers that must be there are 1, and a member is Stable."""
    kind = RECORD_TYPES[number]
    values = _FIELDS | {"state": min(MODERN_GROUPS[number].member_states), "processId": "p"}
    required = {
        field.name: [] if field.is_array else values.get(field.name, 1)
        for field in kind.value.fields
        if field.default is None and not field.is_nullable
    }
    return decode_value(kind, encode_value(kind, 0, required | fields)).fields


class Log:
    """Records of one log partition, replayed as they come."""

    def __init__(self, release: Release = NEWEST_RELEASE) -> None:
        self.warnings: list[tuple[int, str]] = []
        self.replay = GroupReplay(
            release=release,
            on_warning=lambda offset, reason: self.warnings.append((offset, reason)),
        )
        self.next_offset = 0

    def add(
        self,
        number: int,
        fields: dict[str, Any] | None,
        name: str = "",
        group_id: str = "g",
        value_bytes: int = 0,
    ) -> None:
        record = GroupRecord(number, group_id, name, fields, self.next_offset, value_bytes)
        self.next_offset += 1
        self.replay.replay(record)

    def put(self, group_type: str, part: Part, name: str = "", **fields: Any) -> None:
        number = record_type(group_type, part)
        self.add(number, value(number, **fields), name)

    def drop(self, group_type: str, part: Part, name: str = "") -> None:
        self.add(record_type(group_type, part), None, name)

    def commit(self) -> None:
        self.replay.replay_offset_commit("g")
        self.next_offset += 1

    @property
    def group(self) -> Group:
        (group,) = self.replay.groups.values()
        return group

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason in self.warnings]


def only_member(log: Log) -> GroupMember:
    """The one member of the one group."""
    (member,) = log.group.members
    return member


def a_group(group_type: str, *member_ids: str) -> Log:
    """A group as a coordinator writes it when members have joined and own nothing."""
    log = Log()
    for member in member_ids:
        log.put(group_type, Part.MEMBER, member)
    extra: dict[str, Any] = {"validatedTopologyEpoch": 1} if group_type == STREAMS else {}
    log.put(group_type, Part.GROUP, **extra)
    if group_type == STREAMS:
        log.put(group_type, Part.TOPOLOGY)
    for member in member_ids:
        log.put(group_type, Part.TARGET, member)
    log.put(group_type, Part.TARGET_EPOCH)
    for member in member_ids:
        log.put(group_type, Part.CURRENT, member)
    return log


def classic(*members: str) -> dict[str, Any]:
    """The fields of a GroupMetadata value."""
    return decode_value(RECORD_TYPES[2], group_value(members, generation=4)).fields
