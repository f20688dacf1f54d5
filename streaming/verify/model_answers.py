"""The answers of simulated coordinators, in the form of `broker_answers`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.consumer_group import ConsumerGroup
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.records import Assigned
from coordinator_state.model.topics import Topics
from coordinator_state.records.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from coordinator_state.replay.groups import CLASSIC, CONSUMER
from coordinator_state.wire.primitives import uuid_text
from streaming.verify.answer import (
    IS_PENDING,
    AnswerKey,
    Answers,
    Fields,
    member_fields,
    offset_fields,
)


def topic_names(topics: Topics) -> dict[str, str]:
    """The names of a simulated cluster's topics by topic id."""
    return {uuid_text(topic.topic_id): name for name, topic in topics.by_name.items()}


def model_answers(
    coordinators: Iterable[GroupCoordinator], names: Mapping[str, str] | None = None
) -> Answers:
    """The answers of the coordinators of all log partitions.

    `names` are the topics by topic id that stay in assignments; None keeps all topics.
    """
    fields_by_key: dict[AnswerKey, Fields] = {}
    for coordinator in coordinators:
        known = topic_names(coordinator.topics) if names is None else names
        for group in coordinator.groups.values():
            if isinstance(group, ClassicGroup):
                fields_by_key |= _classic_group(group)
            elif isinstance(group, ConsumerGroup):
                fields_by_key |= _consumer_group(group, known)
        for offset_key, offset in coordinator.offsets.items():
            fields_by_key[AnswerKey("offset", *offset_key)] = offset_fields(offset)
        for keys in coordinator.pending.values():
            for offset_key in keys:
                fields_by_key[AnswerKey("pending", *offset_key)] = IS_PENDING
    return fields_by_key


def _classic_group(group: ClassicGroup) -> Answers:
    fields_by_key: dict[AnswerKey, Fields] = {}
    fields_by_key[AnswerKey("group", group.group_id)] = {
        "group_type": CLASSIC,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "group_epoch": None,
        "assignment_epoch": None,
    }
    # A coordinator reports the members of a classic group only while it is Stable.
    for member in () if group.is_rebalancing else group.members.values():
        fields_by_key[AnswerKey("member", group.group_id, member_id=member.member_id)] = {
            "client_id": member.client_id,
            "client_host": member.host,
            "assignment": group.assignments[member.member_id],
        }
    return fields_by_key


def _consumer_group(group: ConsumerGroup, names: Mapping[str, str]) -> Answers:
    fields_by_key: dict[AnswerKey, Fields] = {}
    fields_by_key[AnswerKey("group", group.group_id)] = {
        "group_type": CONSUMER,
        "state": group.state,
        "protocol_type": CONSUMER_PROTOCOL_TYPE,
        "group_epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
    }
    for member_id, member in group.members.items():
        current = group.current[member_id]
        row: dict[str, Any] = {
            "client_id": member.client_id,
            "client_host": member.host,
            "member_epoch": current.epoch,
            "rack_id": None,
            "subscribed_topics": group.topics,
            "assignment": _partitions(current.assigned),
            "group_instance_id": member.instance_id,
            "subscribed_regex": None,
            "target_assignment": _partitions(group.targets[member_id]),
        }
        key = AnswerKey("member", group.group_id, member_id=member_id)
        fields_by_key[key] = member_fields(CONSUMER, row, names)
    return fields_by_key


def _partitions(assigned: Assigned) -> list[dict[str, Any]]:
    return [
        {"topic_id": uuid_text(topic_id), "partition": partition}
        for topic_id, partition in assigned
    ]
