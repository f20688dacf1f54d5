"""Groups and members as rows of `groups` and `group_members`, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

import pyarrow as pa

from coordinator_state.records.member_json import (
    member_json_columns,
)
from coordinator_state.records.record_types import GROUP_METADATA_TYPE
from coordinator_state.records.serde import decode_key, decode_value
from coordinator_state.replay.classic_groups import classic_group
from coordinator_state.replay.group_replay import (
    GroupRecord,
    GroupState,
    name_of,
    restored_group,
)
from coordinator_state.replay.groups import (
    NO_RECORD_OFFSET,
    Group,
    GroupMember,
    as_columns,
    simple_group,
)
from coordinator_state.replay.modern_groups import ModernMember
from streaming.engine.groups import GroupChange, GroupId
from streaming.tables.schemas import COORDINATOR_RECORDS, GROUP_MEMBERS

GROUP_CHANGE_SCHEMA = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("group_id", pa.string()),
        ("is_gone", pa.bool_()),
        ("position", pa.int64()),
        ("group_type", pa.string()),
        ("state", pa.string()),
        ("protocol_type", pa.string()),
        ("protocol", pa.string()),
        ("leader", pa.string()),
        ("generation", pa.int32()),
        ("group_epoch", pa.int32()),
        ("assignment_epoch", pa.int32()),
        ("member_count", pa.int32()),
        ("state_timestamp_ms", pa.int64()),
        ("subscribed_topics", pa.list_(pa.string())),
        ("replay_warning", pa.string()),
        ("record_offset", pa.int64()),
        ("created_record_offset", pa.int64()),
    ]
)
MEMBER_CHANGE_SCHEMA = pa.schema([*GROUP_MEMBERS.schema, pa.field("is_gone", pa.bool_())])


def group_rows(
    changes: Mapping[GroupId, GroupChange], groups: Mapping[GroupId, Group]
) -> list[dict[str, Any]]:
    """Changes as rows of `groups` with `is_gone` and `position`.

    `groups` are the answers of those that are there.
    """
    return [
        {
            "log_partition": log_partition,
            "group_id": group_id,
            "is_gone": change.group is None,
            "position": change.position,
            **_group_columns(groups.get((log_partition, group_id))),
        }
        for (log_partition, group_id), change in changes.items()
    ]


_MEMBER_FIELDS = [field.name for field in fields(GroupMember)]
_STRUCT_LISTS = ("assignment", "target_assignment", "pending_revocation", "tasks", "target_tasks")
_COMPUTED = frozenset({"log_partition", "group_id", "is_gone", "position", "member_count"})


def _group_columns(group: Group | None) -> dict[str, Any]:
    if group is None:
        return {}
    columns = {
        name: getattr(group, name) for name in GROUP_CHANGE_SCHEMA.names if name not in _COMPUTED
    }
    return {**columns, "member_count": len(group.members)}


def member_rows(groups: Mapping[GroupId, Group]) -> list[dict[str, Any]]:
    """The members of every changed group as rows of `group_members`."""
    return [
        {
            "log_partition": log_partition,
            "group_id": group_id,
            "record_offset": group.record_offset,
            **{name: getattr(member, name) for name in _MEMBER_FIELDS},
            **{name: as_columns(getattr(member, name)) for name in _STRUCT_LISTS},
            **member_json_columns(
                group.protocol_type,
                group.protocol,
                member.subscription_bytes,
                member.assignment_bytes,
            ),
        }
        for (log_partition, group_id), group in groups.items()
        for member in group.members
    ]


def group_ids(groups: Iterable[GroupId]) -> pa.Table:
    """Group identities as rows to join with."""
    return pa.Table.from_pylist(
        [{"log_partition": p, "group_id": g} for p, g in groups],
        schema=pa.schema([("log_partition", pa.int32()), ("group_id", pa.string())]),
    )


def read_groups(
    found: pa.Table, rows_of: Callable[[str, list[str]], pa.Table]
) -> dict[GroupId, GroupState]:
    """The groups of the table, put together again with the records that stand behind them.

    `rows_of` reads columns of another table of the same state.
    """
    groups = {(row["log_partition"], row["group_id"]): row for row in found.to_pylist()}
    members = _members_of(groups, rows_of(GROUP_MEMBERS.name, _MEMBER_STATE))
    records = records_of(groups, rows_of(COORDINATOR_RECORDS.name, RAW_RECORD))
    return {
        identity: _read_group(row, members[identity], records[identity])
        for identity, row in groups.items()
    }


def _read_group(
    row: Mapping[str, Any], members: dict[str, ModernMember], records: list[GroupRecord]
) -> GroupState:
    group_id, record_offset = row["group_id"], row["record_offset"]
    warning = row["replay_warning"]
    if row["created_record_offset"] is not None:
        return restored_group(
            group_id,
            row["group_type"],
            created_record_offset=row["created_record_offset"],
            record_offset=record_offset,
            replay_warning=warning,
            members=members,
            records=records,
        )
    if record_offset == NO_RECORD_OFFSET:
        return replace(simple_group(group_id), replay_warning=warning)
    (value,) = (r.value for r in records if r.record_type == GROUP_METADATA_TYPE)
    if value is None:
        raise ValueError(f"group {group_id} is there and its last GroupMetadata is a tombstone")
    return replace(classic_group(group_id, value, record_offset), replay_warning=warning)


_MEMBER_STATE = [
    *("log_partition", "group_id", "member_id"),
    *("created_record_offset", "member_epoch", "member_state"),
]
RAW_RECORD = ["log_partition", "group_id", "record_offset", "raw_key", "raw_value"]


def _members_of(
    groups: Iterable[GroupId], rows: pa.Table
) -> dict[GroupId, dict[str, ModernMember]]:
    found: dict[GroupId, dict[str, ModernMember]] = {identity: {} for identity in groups}
    for row in rows.to_pylist():
        identity = row["log_partition"], row["group_id"]
        if identity in found:
            found[identity][row["member_id"]] = ModernMember(
                member_id=row["member_id"],
                created_record_offset=row["created_record_offset"],
                epoch=row["member_epoch"],
                state=row["member_state"],
            )
    return found


def records_of(groups: Iterable[GroupId], rows: pa.Table) -> dict[GroupId, list[GroupRecord]]:
    """Rows of `coordinator_records` with the columns of `RAW_RECORD`, decoded, by group."""
    found: dict[GroupId, list[GroupRecord]] = {identity: [] for identity in groups}
    for row in rows.to_pylist():
        identity = row["log_partition"], row["group_id"]
        if identity in found:
            key, raw_value = decode_key(row["raw_key"]), row["raw_value"]
            value = None if raw_value is None else decode_value(key.record_type, raw_value).fields
            found[identity].append(
                GroupRecord(
                    record_type=key.record_type.id,
                    group_id=row["group_id"],
                    name=name_of(key.fields),
                    value=value,
                    record_offset=row["record_offset"],
                )
            )
    return found
