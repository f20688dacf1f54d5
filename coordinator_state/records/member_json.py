"""Member bytes of classic groups as JSON, with Kafka's field names.

The group's protocol type, "consumer" or "connect", decides the layout of the bytes. Invalid bytes
and other protocol types have no JSON. The user data of an assignor stays base64: its layout belongs
to the assignor, and no broker reads it.

Source: `consumer_protocol`, `connect_protocol`.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from coordinator_state.errors import DecodeError
from coordinator_state.records.connect_protocol import CONNECT_ASSIGNMENT, CONNECT_SUBSCRIPTION
from coordinator_state.records.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    decoded_assignment,
    decoded_subscription,
)
from coordinator_state.records.message_formatter import fields_json
from coordinator_state.records.serde import DecodedValue, decode_appended

CONNECT: Final = "connect"
"""The protocol type of the workers of Kafka Connect."""

Json = dict[str, Any]

_CONNECT_SUBSCRIPTION: Final = partial(decode_appended, CONNECT_SUBSCRIPTION)
_CONNECT_ASSIGNMENT: Final = partial(decode_appended, CONNECT_ASSIGNMENT)


def subscription_json(protocol_type: str, raw: bytes | None) -> Json | None:
    """Convert a member's subscription, with its version; None if it cannot be decoded."""
    if protocol_type == CONNECT:
        return _connect_subscription(raw)
    if protocol_type == CONSUMER_PROTOCOL_TYPE:
        return _json(decoded_subscription, raw)
    return None


def assignment_json(protocol_type: str, raw: bytes | None) -> Json | None:
    """Convert a member's assignment, with its version; None if absent or not decodable."""
    if protocol_type == CONNECT:
        return _json(_CONNECT_ASSIGNMENT, raw)
    if protocol_type == CONSUMER_PROTOCOL_TYPE:
        return _json(decoded_assignment, raw)
    return None


def _json(decode: Callable[[bytes], DecodedValue], raw: bytes | None) -> Json | None:
    try:
        value = decode(raw or b"")
    except DecodeError:
        return None
    return {"version": value.version, **fields_json(value)}


def _connect_subscription(raw: bytes | None) -> Json | None:
    """Convert a worker's subscription, with its earlier assignment in place of the bytes."""
    subscription = _json(_CONNECT_SUBSCRIPTION, raw)
    if subscription is None or subscription.get("allocation") is None:
        return subscription
    allocation = _json(_CONNECT_ASSIGNMENT, b64decode(subscription["allocation"]))
    return subscription if allocation is None else {**subscription, "allocation": allocation}


def member_json_columns(
    protocol_type: str, subscription: bytes | None, assignment: bytes | None
) -> dict[str, str | None]:
    """Return the columns `subscription_json` and `assignment_json` of a classic group's member."""
    return {
        "subscription_json": _json_text(subscription_json(protocol_type, subscription)),
        "assignment_json": _json_text(assignment_json(protocol_type, assignment)),
    }


def _json_text(message: Json | None) -> str | None:
    return None if message is None else json.dumps(message, ensure_ascii=False)
