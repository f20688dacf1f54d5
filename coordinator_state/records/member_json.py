"""Member bytes of classic groups as JSON, with Kafka's field names.

The group's protocol type, "consumer" or "connect", decides the layout of the bytes. In a consumer
group the protocol (the name of the assignor) decides the layout of the user data. Invalid bytes and
other protocol types have no JSON. User data that cannot be decoded stays base64.

Source: `consumer_protocol`, `connect_protocol`, `streams_protocol`; clients/src/main/java/org/
apache/kafka/clients/consumer/{StickyAssignor,CooperativeStickyAssignor}.java at 4.2.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from coordinator_state.errors import DecodeError
from coordinator_state.records.connect_protocol import CONNECT_ASSIGNMENT, CONNECT_SUBSCRIPTION
from coordinator_state.records.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    decoded_assignment,
    decoded_subscription,
)
from coordinator_state.records.message_formatter import fields_json
from coordinator_state.records.serde import DecodedValue, decode_appended, decode_body
from coordinator_state.records.streams_protocol import (
    decode_assignment_info,
    decode_subscription_info,
)
from coordinator_state.wire.schema import Field, Schema

CONNECT: Final = "connect"
"""The protocol type of the workers of Kafka Connect."""

Json = dict[str, Any]

_STICKY = Schema(
    name="StickyAssignorUserData",
    versions=(0, 1),
    fields=(
        Field(
            name="previous_assignment",
            type="struct",
            is_array=True,
            fields=(
                Field(name="topic", type="string"),
                Field(name="partitions", type="int32", is_array=True),
            ),
        ),
        Field(name="generation", type="int32", versions=(1, 1)),
    ),
)
_COOPERATIVE_STICKY = Schema(
    name="CooperativeStickyAssignorUserData",
    versions=(0, 0),
    fields=(Field(name="generation", type="int32"),),
)


def subscription_json(protocol_type: str, protocol: str | None, raw: bytes | None) -> Json | None:
    """Convert a member's subscription, with its version; None if it cannot be decoded."""
    if protocol_type == CONNECT:
        return _json(_decode_connect_subscription, raw, allocation=_connect_assignment)
    if protocol_type == CONSUMER_PROTOCOL_TYPE:
        read = _SUBSCRIPTION_USER_DATA.get(protocol or "")
        return _json(decoded_subscription, raw, userData=read)
    return None


def assignment_json(protocol_type: str, protocol: str | None, raw: bytes | None) -> Json | None:
    """Convert a member's assignment, with its version; None if absent or not decodable."""
    if protocol_type == CONNECT:
        return _json(_decode_connect_assignment, raw)
    if protocol_type == CONSUMER_PROTOCOL_TYPE:
        read = _ASSIGNMENT_USER_DATA.get(protocol or "")
        return _json(decoded_assignment, raw, userData=read)
    return None


_Decode = Callable[[bytes], DecodedValue]
_ReadBytes = Callable[[bytes], Json]


def _json(decode: _Decode, raw: bytes | None, **bytes_fields: _ReadBytes | None) -> Json | None:
    """Convert a message; `bytes_fields` has readers of its fields of bytes, by field name."""
    try:
        value = decode(raw or b"")
    except DecodeError:
        return None
    message = _with_version(value)
    for name, read in bytes_fields.items():
        if read is not None and value.fields[name] is not None:
            with suppress(DecodeError):
                message[name] = read(value.fields[name])
    return message


def _with_version(value: DecodedValue) -> Json:
    return {"version": value.version, **fields_json(value)}


def _decode_connect_subscription(raw: bytes) -> DecodedValue:
    return decode_appended(CONNECT_SUBSCRIPTION, raw)


def _decode_connect_assignment(raw: bytes) -> DecodedValue:
    return decode_appended(CONNECT_ASSIGNMENT, raw)


def _connect_assignment(raw: bytes) -> Json:
    return _with_version(_decode_connect_assignment(raw))


def _subscription_info(raw: bytes) -> Json:
    """Convert a SubscriptionInfo, with text for the fields where Kafka Streams has bytes."""
    value = decode_subscription_info(raw)
    info = _with_version(value)
    if "userEndPoint" in info:
        info["userEndPoint"] = _utf8(value.fields["userEndPoint"])
    if "clientTags" in info:
        tags = value.fields["clientTags"]
        info["clientTags"] = {_utf8(tag["key"]): _utf8(tag["value"]) for tag in tags}
    return info


def _assignment_info(raw: bytes) -> Json:
    """Convert an AssignmentInfo, with topic names in place of topic indexes."""
    info = _with_version(decode_assignment_info(raw))
    topics = {entry["topicIndex"]: entry["topic"] for entry in info.pop("topicDictionary", ())}
    for task in (*info["activeTasks"], *info["standbyTasks"]):
        if "namedTopology" in task:
            task["namedTopology"] = _utf16(task["namedTopology"]) or None
    for name in ("partitionsByHost", "standbyPartitionsByHost"):
        for host in info.get(name, ()):
            if "numberedPartitions" in host:
                host["partitions"] = [
                    {"topic": topics.get(entry["topicIndex"]), "partition": entry["partition"]}
                    for entry in host.pop("numberedPartitions")
                ]
    return info


def _utf8(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _utf16(characters: list[int]) -> str:
    raw = b"".join(character.to_bytes(2, "big") for character in characters)
    return raw.decode("utf-16-be", errors="replace")


def _sticky(raw: bytes) -> Json:
    """Read version 1 or, if that fails, version 0, as assignors do: the bytes have no version."""
    try:
        return fields_json(decode_body(_STICKY, 1, memoryview(raw)))
    except DecodeError:
        return fields_json(decode_body(_STICKY, 0, memoryview(raw)))


def _cooperative_sticky(raw: bytes) -> Json:
    return fields_json(decode_body(_COOPERATIVE_STICKY, 0, memoryview(raw)))


_SUBSCRIPTION_USER_DATA: Final[dict[str, _ReadBytes]] = {
    "stream": _subscription_info,
    "sticky": _sticky,
    "cooperative-sticky": _cooperative_sticky,
}
_ASSIGNMENT_USER_DATA: Final[dict[str, _ReadBytes]] = {"stream": _assignment_info}
"""Readers of user data by protocol, which is the name of the assignor."""


def member_json_columns(
    protocol_type: str, protocol: str | None, subscription: bytes | None, assignment: bytes | None
) -> dict[str, str | None]:
    """Return the columns `subscription_json` and `assignment_json` of a classic group's member."""
    return {
        "subscription_json": _json_text(subscription_json(protocol_type, protocol, subscription)),
        "assignment_json": _json_text(assignment_json(protocol_type, protocol, assignment)),
    }


def _json_text(message: dict[str, Any] | None) -> str | None:
    return None if message is None else json.dumps(message, ensure_ascii=False)
