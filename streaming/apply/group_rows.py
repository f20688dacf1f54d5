"""Groups and members as rows of `groups` and `group_members`, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from coordinator_state.groups import CLASSIC, Group
from streaming.apply.groups import GroupChange, GroupId
from streaming.tables.schemas import GROUP_MEMBERS

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
        ("member_count", pa.int32()),
        ("state_timestamp_ms", pa.int64()),
        ("replay_warning", pa.string()),
        ("record_offset", pa.int64()),
    ]
)
MEMBER_CHANGE_SCHEMA = pa.schema([*GROUP_MEMBERS.schema, pa.field("is_gone", pa.bool_())])


def group_rows(changes: Mapping[GroupId, GroupChange]) -> list[dict[str, Any]]:
    """Changes as rows of `groups` with `is_gone` and `position`."""
    return [
        {
            "log_partition": log_partition,
            "group_id": group_id,
            "is_gone": change.group is None,
            "position": change.position,
            **({} if change.group is None else _group_columns(change.group)),
        }
        for (log_partition, group_id), change in changes.items()
    ]


def _group_columns(group: Group) -> dict[str, Any]:
    is_classic = group.group_type == CLASSIC
    return {
        "group_type": group.group_type,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "generation": group.generation if is_classic else None,
        "member_count": len(group.members),
        "state_timestamp_ms": group.state_timestamp_ms,
        "replay_warning": group.replay_warning,
        "record_offset": group.record_offset,
    }


def member_rows(changes: Mapping[GroupId, GroupChange]) -> list[dict[str, Any]]:
    """The members of every changed group as rows of `group_members`."""
    return [
        {
            "log_partition": log_partition,
            "group_id": group_id,
            "member_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "rack_id": member.rack_id,
            "session_timeout_ms": member.session_timeout_ms,
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "subscribed_topics": (
                None if member.subscribed_topics is None else list(member.subscribed_topics)
            ),
            "assignment": (
                None
                if member.assignment is None
                else [
                    {"topic": a.topic, "topic_id": a.topic_id, "partition": a.partition}
                    for a in member.assignment
                ]
            ),
            "subscription_bytes": member.subscription,
            "assignment_bytes": member.assignment_bytes,
            "record_offset": change.group.record_offset,
        }
        for (log_partition, group_id), change in changes.items()
        if change.group is not None
        for member in change.group.members
    ]


def group_ids(groups: Iterable[GroupId]) -> pa.Table:
    """Group identities as rows to join with."""
    return pa.Table.from_pylist(
        [{"log_partition": p, "group_id": g} for p, g in groups],
        schema=pa.schema([("log_partition", pa.int32()), ("group_id", pa.string())]),
    )


def read_groups(found: pa.Table) -> dict[GroupId, Group]:
    """The groups of the table, without their members."""
    return {
        (row["log_partition"], row["group_id"]): Group(
            group_id=row["group_id"],
            group_type=row["group_type"],
            state=row["state"],
            protocol_type=row["protocol_type"],
            record_offset=row["record_offset"],
        )
        for row in found.to_pylist()
    }
