"""Logs of groups that rebalance again and again, each time with the same members."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from typing import Final
from uuid import UUID

from coordinator_state.model.log import CoordinatorLog, KeyAndValue
from coordinator_state.records.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    encode_assignment,
    encode_subscription,
)
from coordinator_state.records.record_types import GROUP_METADATA_TYPE, RECORD_TYPES
from coordinator_state.records.serde import encode_key, encode_value
from coordinator_state.replay.partitioner import DEFAULT_LOG_PARTITIONS, partition_for
from coordinator_state.wire.struct_reader import Fields

Rebalance = Callable[[str, int], list[KeyAndValue]]
"""The records of a group's rebalance with this number, counted from 0."""

_SESSION_MS: Final = 1_800_000
TOPIC: Final = "orders"
_PARTITIONS: Final = 4
"""Of each member."""
_CLASSIC_VERSION: Final = 3
_STABLE: Final = 0
_CLIENT_HOST: Final = "/10.0.0.1"


def group_logs(
    rebalance: Rebalance, *, groups: int, rebalances: int, now_ms: int
) -> dict[int, CoordinatorLog]:
    """The log of each log partition: all groups rebalance in turn."""
    logs: dict[int, CoordinatorLog] = defaultdict(CoordinatorLog)
    for number in range(rebalances):
        for group_id in group_ids(groups):
            log = logs[partition_for(group_id, DEFAULT_LOG_PARTITIONS)]
            log.append(rebalance(group_id, number), now_ms)
    return logs


def group_ids(groups: int) -> list[str]:
    """The ids of the groups."""
    return [f"group-{number:06d}" for number in range(groups)]


def topic_partitions(members: int) -> int:
    """The partitions of `TOPIC` that the members of a group read."""
    return members * _PARTITIONS


def classic_rebalance(members: int, now_ms: int) -> Rebalance:
    """Classic groups: one GroupMetadata, with subscriptions that name the generation.

    Kafka's consumers do so. The topic of each group is its own.
    """

    def rebalance(group_id: str, number: int) -> list[KeyAndValue]:
        topic = f"topic-of-{group_id}"
        # A consumer names the generation that it leaves.
        subscribed = {"topics": [topic], "userData": None, "generationId": number}
        subscription = encode_subscription(subscribed)
        value = {
            "protocolType": CONSUMER_PROTOCOL_TYPE,
            "generation": number + 1,
            "protocol": "range",
            "leader": f"member-0-of-{group_id}",
            "currentStateTimestamp": now_ms,
            "members": [
                {
                    "memberId": f"member-{member}-of-{group_id}",
                    "groupInstanceId": None,
                    "clientId": f"client-{member}",
                    "clientHost": _CLIENT_HOST,
                    "rebalanceTimeout": _SESSION_MS,
                    "sessionTimeout": _SESSION_MS,
                    "subscription": subscription,
                    "assignment": _assignment(topic, member),
                }
                for member in range(members)
            ],
        }
        record_type = RECORD_TYPES[GROUP_METADATA_TYPE]
        key = encode_key(record_type, {"group": group_id})
        return [(key, encode_value(record_type, _CLASSIC_VERSION, value))]

    return rebalance


@cache
def _assignment(topic: str, member: int) -> bytes:
    topics = [{"topic": topic, "partitions": _partitions_of(member)}]
    return encode_assignment({"assignedPartitions": topics, "userData": None})


def _partitions_of(member: int) -> list[int]:
    return list(range(member * _PARTITIONS, (member + 1) * _PARTITIONS))


def consumer_rebalance(members: int, topic_id: UUID) -> Rebalance:
    """Consumer groups (KIP-848), by record types 3, 5, 6, 7 and 8.

    A new epoch with the same target assignment: the epochs of the group, of its target assignment
    and of each member. The first rebalance also has the members and their target assignments.
    """

    def rebalance(group_id: str, number: int) -> list[KeyAndValue]:
        epoch, names = number + 1, [f"member-{member}-of-{group_id}" for member in range(members)]
        record = partial(_consumer_record, group_id)
        records = []
        if number == 0:
            records += [
                record(5, _member(member), memberId=name) for member, name in enumerate(names)
            ]
        records.append(record(3, {"epoch": epoch, "metadataHash": 0}))
        assigned = [
            [{"topicId": topic_id, "partitions": _partitions_of(member)}]
            for member in range(members)
        ]
        if number == 0:
            records += [
                record(7, {"topicPartitions": target}, memberId=name)
                for name, target in zip(names, assigned, strict=True)
            ]
        records.append(record(6, {"assignmentEpoch": epoch, "assignmentTimestamp": 0}))
        for name, current in zip(names, assigned, strict=True):
            value = {
                **{"memberEpoch": epoch, "previousMemberEpoch": epoch - 1, "state": _STABLE},
                "assignedPartitions": [{**topic, "assignmentEpochs": []} for topic in current],
                "partitionsPendingRevocation": [],
            }
            records.append(record(8, value, memberId=name))
        return records

    return rebalance


def _member(member: int) -> Fields:
    return {
        **{"instanceId": None, "rackId": None, "clientId": f"client-{member}"},
        **{"clientHost": _CLIENT_HOST, "subscribedTopicNames": [TOPIC]},
        **{"subscribedTopicRegex": None, "rebalanceTimeoutMs": _SESSION_MS},
        **{"serverAssignor": None, "classicMemberMetadata": None},
    }


def _consumer_record(group_id: str, record_type_id: int, value: Fields, **key: str) -> KeyAndValue:
    record_type = RECORD_TYPES[record_type_id]
    raw_key = encode_key(record_type, {"groupId": group_id, **key})
    return raw_key, encode_value(record_type, 0, value)
