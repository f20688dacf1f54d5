"""Logs of `__consumer_offsets` as events, and the records that are in them.

`segment` writes events as record batches, gaps included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key, encode_value
from coordinator_state.wire.compression import COMPRESSIONS

BASE_TIMESTAMP_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One batch of the log: a marker when `control_type` is set, else one data record."""

    producer_id: int = -1
    is_transactional: bool = False
    control_type: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    gap: int = 0


def offset_key(group_id: str, topic: str, partition: int, record_type: int = 1) -> bytes:
    """The key of an offset commit."""
    fields = {"group": group_id, "topic": topic, "partition": partition}
    return encode_key(RECORD_TYPES[record_type], fields)


def offset_value(committed_offset: int, version: int = 3, **fields: Any) -> bytes:
    """The value of an offset commit."""
    return encode_value(
        RECORD_TYPES[1],
        version,
        {
            "offset": committed_offset,
            "metadata": "",
            "commitTimestamp": BASE_TIMESTAMP_MS + committed_offset,
            **fields,
        },
    )


def group_value(
    members: Sequence[str] = (),
    *,
    protocol_type: str = "consumer",
    generation: int = 1,
    version: int = 3,
    session_timeout_ms: int = 10_000,
    subscribed_generation: int = -1,
    instance_id: str | None = None,
) -> bytes:
    """A GroupMetadata value whose members subscribe to topic `t` and own a partition each."""
    subscription = {"topics": ["t"], "userData": None, "generationId": subscribed_generation}
    return encode_value(
        RECORD_TYPES[2],
        version,
        {
            "protocolType": protocol_type,
            "generation": generation,
            "protocol": "range" if members else None,
            "leader": members[0] if members else None,
            **({"currentStateTimestamp": BASE_TIMESTAMP_MS} if version >= 2 else {}),
            "members": [
                {
                    "memberId": member,
                    **({} if instance_id is None else {"groupInstanceId": instance_id}),
                    "clientId": f"client of {member}",
                    "clientHost": "/127.0.0.1",
                    **({"rebalanceTimeout": 60_000} if version >= 1 else {}),
                    "sessionTimeout": session_timeout_ms,
                    "subscription": encode_subscription(subscription),
                    "assignment": encode_assignment(
                        {
                            "assignedPartitions": [{"topic": "t", "partitions": [number]}],
                            "userData": None,
                        }
                    ),
                }
                for number, member in enumerate(members)
            ],
        },
    )


def group_record_value(record_type: int) -> bytes:
    """A value of a consumer, share or streams group record."""
    fields: dict[str, Any] = {"epoch": 5}
    if record_type in (11, 17):
        fields["metadataHash"] = -1
    if record_type == 5:
        fields = {"clientId": "c", "clientHost": "/h", "subscribedTopicNames": ["t"]}
    return encode_value(RECORD_TYPES[record_type], 0, fields)


def segment(events: Sequence[Event], leader_epoch: int = 0) -> tuple[bytes, int]:
    """The events as record batches, and the offset after the last one."""
    out = bytearray()
    offset = 0
    sequences: Counter[int] = Counter()
    for event in events:
        offset += event.gap
        if event.control_type is not None:
            out += write_control_batch(
                offset,
                event.producer_id,
                0,
                event.control_type,
                timestamp_ms=BASE_TIMESTAMP_MS + offset,
            )
        else:
            out += write_record_batch(
                offset,
                [(0, BASE_TIMESTAMP_MS + offset, event.key, event.value)],
                producer_id=event.producer_id,
                producer_epoch=-1 if event.producer_id == -1 else 0,
                # The log cleaner writes no batch of a producer without a sequence.
                base_sequence=-1 if event.producer_id == -1 else sequences[event.producer_id],
                is_transactional=event.is_transactional,
                # Of the five compressions in turn, for logs that fetches or cleaners read.
                compression=COMPRESSIONS[offset % len(COMPRESSIONS)],
                leader_epoch=leader_epoch,
            )
            sequences[event.producer_id] += 1
        offset += 1
    return bytes(out), offset
