"""The answers of simulated coordinators, in the form of `broker_answers`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coordinator_state.model.classic_group import ClassicGroup, ClassicState
from coordinator_state.model.consumer_group import LiveConsumerGroup
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.requests import ErrorCode
from coordinator_state.model.topics import Assigned, Topics
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
        known = topic_names(coordinator.shard.topics) if names is None else names
        for group_id, group in coordinator.groups.items():
            if isinstance(group, LiveConsumerGroup):
                fields_by_key |= _consumer_group(group, known)
            else:
                fields_by_key |= _classic_group(group)
            error_code, offsets = coordinator.fetch_offsets(group_id)
            if error_code is ErrorCode.NONE:
                for (topic, partition), offset in offsets.items():
                    key = AnswerKey("offset", group_id, topic, partition)
                    fields_by_key[key] = offset_fields(offset)
        for keys in coordinator.pending.values():
            for offset_key in keys:
                fields_by_key[AnswerKey("pending", *offset_key)] = IS_PENDING
    return fields_by_key


def _classic_group(group: ClassicGroup) -> Answers:
    fields_by_key: dict[AnswerKey, Fields] = {}
    fields_by_key[AnswerKey("group", group.group_id)] = {
        "group_type": CLASSIC,
        "state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "group_epoch": None,
        "assignment_epoch": None,
    }
    # A coordinator reports the members of a classic group only while it is Stable.
    for member in group.members.values() if group.is_in(ClassicState.STABLE) else ():
        fields_by_key[AnswerKey("member", group.group_id, member_id=member.member_id)] = {
            "client_id": member.client_id,
            "client_host": member.client_host,
            "assignment": member.assignment,
        }
    return fields_by_key


def _consumer_group(group: LiveConsumerGroup, names: Mapping[str, str]) -> Answers:
    fields_by_key: dict[AnswerKey, Fields] = {}
    fields_by_key[AnswerKey("group", group.group_id)] = {
        "group_type": CONSUMER,
        "state": group.state.value,
        "protocol_type": group.protocol_type,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.target_epoch,
    }
    for member in group.members.values():
        row: dict[str, Any] = {
            "client_id": member.client_id,
            "client_host": member.client_host,
            "member_epoch": member.member_epoch,
            "rack_id": None,
            "subscribed_topics": member.subscribed_topics,
            "assignment": _partitions(member.assigned),
            "group_instance_id": member.group_instance_id,
            "subscribed_regex": None,
            "target_assignment": _partitions(group.targets.get(member.member_id, {})),
        }
        key = AnswerKey("member", group.group_id, member_id=member.member_id)
        fields_by_key[key] = member_fields(CONSUMER, row, names)
    return fields_by_key


def _partitions(assigned: Assigned) -> list[dict[str, Any]]:
    return [
        {"topic_id": uuid_text(topic_id), "partition": partition}
        for topic_id, partitions in assigned.items()
        for partition in partitions
    ]
