"""Turns groups into rows of `groups` and `group_members`, and restores groups from rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.collected import GroupId, group_ids
from coordinator_state.apply.columns import table_of
from coordinator_state.apply.groups import GroupChange
from coordinator_state.apply.rows import (
    GROUP_CHANGE_SCHEMA,
    GROUP_ROW,
    GUARD_OFFSET,
    MEMBER_CHANGE_SCHEMA,
)
from coordinator_state.records.member_json import member_json_columns
from coordinator_state.records.record_types import GROUP_METADATA_TYPE
from coordinator_state.records.serde import decode_key, decode_value
from coordinator_state.replay.classic_groups import classic_group
from coordinator_state.replay.group_replay import (
    GroupRecord,
    GroupState,
    described,
    name_of,
    restored_group,
)
from coordinator_state.replay.groups import (
    NO_RECORD_OFFSET,
    Group,
    GroupMember,
    simple_group,
)
from coordinator_state.replay.modern_groups import ModernGroup, ModernMember
from coordinator_state.replay.releases import Release

Row = dict[str, Any]

_GROUP_FIELDS = [name for name in GROUP_ROW.names if hasattr(Group, name)]


def group_rows(changes: Mapping[GroupId, GroupChange], groups: Mapping[GroupId, Group]) -> pa.Table:
    """Changes as rows of `groups` (`GROUP_CHANGE_SCHEMA`).

    `groups` has the described state of each changed group that exists.
    """
    rows = [
        {
            **({} if change.group is None else _group_columns(groups[group])),
            "log_partition": group[0],
            "group_id": group[1],
            "is_deleted": change.group is None,
            GUARD_OFFSET: change.guard_offset,
        }
        for group, change in changes.items()
    ]
    return pa.Table.from_pylist(rows, schema=GROUP_CHANGE_SCHEMA)


def _group_columns(group: Group) -> Row:
    columns = {name: getattr(group, name) for name in _GROUP_FIELDS}
    return {**columns, "member_count": len(group.members)}


def member_rows(
    changes: Mapping[GroupId, GroupChange],
    groups: Mapping[GroupId, Group],
    before: Mapping[GroupId, GroupState],
) -> pa.Table:
    """The members of the changed groups, and deletions of their former members.

    Args:
        changes: the changed groups.
        groups: the described state of each changed group that exists.
        before: the groups before the changes.
    """
    of_groups = [
        (group, state, member) for group, state in groups.items() for member in state.members
    ]
    json_columns = [
        member_json_columns(state.protocol_type, member.subscription_bytes, member.assignment_bytes)
        for _, state, member in of_groups
    ]
    current = table_of(
        (member for *_, member in of_groups),
        MEMBER_CHANGE_SCHEMA,
        log_partition=[log_partition for (log_partition, _), *_ in of_groups],
        group_id=[group_id for (_, group_id), *_ in of_groups],
        record_offset=[state.record_offset for _, state, _ in of_groups],
        subscription_json=[columns["subscription_json"] for columns in json_columns],
        assignment_json=[columns["assignment_json"] for columns in json_columns],
    )
    deleted = []
    for group, change in changes.items():
        staying = {member.member_id for member in groups[group].members} if change.group else ()
        deleted += [
            {
                "log_partition": group[0],
                "group_id": group[1],
                "member_id": member.member_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "record_offset": change.guard_offset,
                "is_deleted": True,
            }
            for member in _members_except(before.get(group), staying)
        ]
    return pa.concat_tables([current, pa.Table.from_pylist(deleted, schema=MEMBER_CHANGE_SCHEMA)])


def _members_except(state: GroupState | None, member_ids: Iterable[str]) -> list[GroupMember]:
    """The members of a group except these."""
    if state is None:
        return []
    if isinstance(state, Group):
        members = {member.member_id: member for member in state.members}
        return [member for name, member in members.items() if name not in member_ids]
    described_members = (
        state.described_member(name) for name in state.members if name not in member_ids
    )
    return [member for member in described_members if member is not None]


MEMBER_STATE_COLUMNS = [
    *("log_partition", "group_id", "member_id"),
    *("created_record_offset", "member_epoch", "member_state"),
]
RAW_RECORD_COLUMNS = ["log_partition", "group_id", "record_offset", "raw_key", "raw_value"]


def restored_groups(
    groups: pa.Table, members: pa.Table, records: pa.Table, release: Release
) -> dict[GroupId, GroupState]:
    """Restore groups from table rows, so that a replay can continue.

    Args:
        groups: rows of `groups`.
        members: `MEMBER_STATE_COLUMNS` of `group_members`.
        records: `RAW_RECORD_COLUMNS` of `coordinator_records`.
        release: the rules that the groups were replayed by.
    """
    rows = dict(zip(group_ids(groups), groups.to_pylist(), strict=True))
    members_of = _members_of(rows, members)
    records_of = decoded_records(rows, records)
    return {
        group: _restored(row, members_of[group], records_of[group], release)
        for group, row in rows.items()
    }


def _restored(
    row: Mapping[str, Any],
    members: dict[str, ModernMember],
    records: list[GroupRecord],
    release: Release,
) -> GroupState:
    group_id, record_offset = row["group_id"], row["record_offset"]
    warning = row["replay_warning"]
    if row["created_record_offset"] is not None:
        return restored_group(
            group_id,
            row["group_type"],
            release=release,
            created_record_offset=row["created_record_offset"],
            record_offset=record_offset,
            replay_warning=warning,
            members=members,
            records=records,
        )
    if record_offset == NO_RECORD_OFFSET:
        return replace(simple_group(group_id), replay_warning=warning)
    (value,) = (record.value for record in records if record.record_type == GROUP_METADATA_TYPE)
    if value is None:
        raise ValueError(
            f"group {group_id} has a row in `groups`, but its last GroupMetadata is a tombstone"
        )
    return replace(classic_group(group_id, value, record_offset), replay_warning=warning)


def _members_of(
    groups: Iterable[GroupId], rows: pa.Table
) -> dict[GroupId, dict[str, ModernMember]]:
    members_by_group: dict[GroupId, dict[str, ModernMember]] = {group: {} for group in groups}
    for row in rows.to_pylist():
        group = row["log_partition"], row["group_id"]
        if group in members_by_group:
            members_by_group[group][row["member_id"]] = ModernMember(
                member_id=row["member_id"],
                created_record_offset=row["created_record_offset"],
                epoch=row["member_epoch"],
                state=row["member_state"],
            )
    return members_by_group


def decoded_records(groups: Iterable[GroupId], rows: pa.Table) -> dict[GroupId, list[GroupRecord]]:
    """Decode rows of `coordinator_records` (`RAW_RECORD_COLUMNS`) and return them by group."""
    records_by_group: dict[GroupId, list[GroupRecord]] = {group: [] for group in groups}
    for row in rows.to_pylist():
        group = row["log_partition"], row["group_id"]
        if group in records_by_group:
            key, raw_value = decode_key(row["raw_key"]), row["raw_value"]
            value = None if raw_value is None else decode_value(key.record_type, raw_value).fields
            records_by_group[group].append(
                GroupRecord(
                    record_type=key.record_type.id,
                    group_id=row["group_id"],
                    name=name_of(key.fields),
                    value=value,
                    record_offset=row["record_offset"],
                )
            )
    return records_by_group


def group_tombstones(records: pa.Table) -> dict[GroupId, int]:
    """The groups whose last GroupMetadata is a tombstone, with its record offset.

    `records` has rows of `coordinator_records`, at most one of each key.
    """
    is_group = pc.equal(records["record_type"], GROUP_METADATA_TYPE)
    rows = records.filter(pc.and_(is_group, records["is_tombstone"]))
    return dict(zip(group_ids(rows), rows["record_offset"].to_pylist(), strict=True))


def unnamed_topics(groups: Iterable[GroupState | None]) -> set[str]:
    """The ids of topics that groups know only by id; a deleted group is None."""
    unnamed = (group.unnamed_topic_ids() for group in groups if isinstance(group, ModernGroup))
    return set[str]().union(*unnamed)


def described_groups(
    changes: Mapping[GroupId, GroupChange], topic_names: Mapping[str, str]
) -> dict[GroupId, Group]:
    """Describe the changed groups that exist, and add the names of topics known by id."""
    return {
        group: described(change.group, topic_names)
        for group, change in changes.items()
        if change.group is not None
    }
