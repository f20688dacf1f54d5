"""Answers about groups, members and offsets, in one form for brokers and tables.

Answers are a mapping from the key of an answer to its fields. To compare a coordinator with the
tables, `verify` compares two mappings.

DescribeGroups returns the members of a classic group while it is Stable, with their assignment as
bytes. Each other group type has its own Describe request. Coordinators leave out partitions of
deleted topics, and so does this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

from coordinator_state.replay.groups import CLASSIC, CONSUMER, STREAMS
from coordinator_state.wire.primitives import uuid_text
from streaming.kafka.offset_fetch import UNSTABLE_OFFSET_COMMIT

Row = Mapping[str, Any]
Fields = Mapping[str, Any]

Kind = Literal["group", "member", "offset", "pending"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class AnswerKey(NamedTuple):
    """The subject of an answer; which of the last three fields are set depends on the kind."""

    kind: Kind
    group_id: str
    topic: str = ""
    partition: int = -1
    member_id: str = ""

    def __str__(self) -> str:
        if self.kind == "member":
            return f"member {self.member_id} of {self.group_id}"
        if self.topic:
            return f"{self.kind} {self.group_id} {self.topic}:{self.partition}"
        return f"{self.kind} {self.group_id}"


Answers = Mapping[AnswerKey, Fields]
"""A missing key means that the group, member or offset does not exist."""

_TASK_TYPES: Final = ("active", "standby", "warmup")
IS_PENDING: Final = {"error": UNSTABLE_OFFSET_COMMIT}


def offset_fields(offset: Any) -> Fields:
    """The compared fields of a committed offset, from an object with these attributes."""
    return {
        name: getattr(offset, name) for name in ("committed_offset", "leader_epoch", "metadata")
    }


def group_fields(row: Row) -> Fields:
    """The compared fields of a row of `groups`, or of a mapping with its columns."""
    return {
        name: row[name]
        for name in ("group_type", "state", "protocol_type", "group_epoch", "assignment_epoch")
    }


def member_fields(group_type: str, row: Row, topic_names: Mapping[str, str]) -> Fields:
    """The compared fields of a row of `group_members`, or of a mapping with its columns."""
    fields: dict[str, Any] = {name: row[name] for name in ("client_id", "client_host")}
    if group_type == CLASSIC:
        return {**fields, "assignment": row["assignment_bytes"] or b""}
    fields |= {name: row[name] for name in ("member_epoch", "rack_id")}
    if group_type == STREAMS:
        return fields | {
            "group_instance_id": row["group_instance_id"],
            "tasks": _task_names(row["tasks"]),
            "target_tasks": _task_names(row["target_tasks"]),
        }
    fields |= {
        "subscribed_topics": sorted(row["subscribed_topics"] or ()),
        "assignment": _partition_names(row["assignment"], topic_names),
    }
    if group_type == CONSUMER:
        fields |= {
            "group_instance_id": row["group_instance_id"],
            "subscribed_regex": row["subscribed_regex"],
            "target_assignment": _partition_names(row["target_assignment"], topic_names),
        }
    return fields


def topic_ids(row: Row) -> set[str]:
    """The topic ids in the assignments of a row of `group_members`."""
    return {
        assigned["topic_id"]
        for name in ("assignment", "target_assignment")
        for assigned in row[name] or ()
        if assigned["topic_id"] is not None
    }


def described_members(group_type: str, group: Any) -> dict[str, Fields]:
    """The fields of members by member id, from the answer to a Describe request."""
    fields_by_member = {}
    for member in group.members:
        row = _member_row(group_type, member)
        names = {
            assigned["topic_id"]: assigned["topic"]
            for name in ("assignment", "target_assignment")
            for assigned in row.get(name, ())
        }
        fields_by_member[member.member_id] = member_fields(group_type, row, names)
    return fields_by_member


def _member_row(group_type: str, member: Any) -> Row:
    row: dict[str, Any] = {
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_epoch": member.member_epoch,
        "rack_id": member.rack_id,
        "group_instance_id": getattr(member, "instance_id", None),
    }
    if group_type == STREAMS:
        return row | {
            "tasks": _tasks(member.assignment),
            "target_tasks": _tasks(member.target_assignment),
        }
    row |= {
        "subscribed_topics": member.subscribed_topic_names,
        "assignment": _partitions(member.assignment),
    }
    if group_type == CONSUMER:
        row |= {
            "subscribed_regex": member.subscribed_topic_regex or None,
            "target_assignment": _partitions(member.target_assignment),
        }
    return row


def _partitions(assignment: Any) -> list[Row]:
    return [
        {
            "topic": entry.topic_name,
            "topic_id": uuid_text(entry.topic_id),
            "partition": partition,
        }
        for entry in assignment.topic_partitions
        for partition in entry.partitions
    ]


def _tasks(assignment: Any) -> list[Row]:
    return [
        {
            "task_type": task_type,
            "subtopology_id": entry.subtopology_id,
            "partition": partition,
        }
        for task_type in _TASK_TYPES
        for entry in getattr(assignment, f"{task_type}_tasks")
        for partition in entry.partitions
    ]


def _partition_names(assigned: Iterable[Row] | None, topic_names: Mapping[str, str]) -> list[str]:
    return sorted(
        f"{topic_names[row['topic_id']]}:{row['partition']}"
        for row in assigned or ()
        if row["topic_id"] in topic_names
    )


def _task_names(tasks: Iterable[Row] | None) -> list[str]:
    return sorted(
        f"{row['task_type']} {row['subtopology_id']}_{row['partition']}" for row in tasks or ()
    )
