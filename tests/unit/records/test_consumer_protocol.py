"""Subscription and assignment bytes that `test_golden.py` has not.

Tests that name one of Kafka's follow ConsumerProtocolTest (clients/src/test/java/org/apache/kafka/
clients/consumer/internals at 4.2.0).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator_state.errors import (
    UnsupportedVersion,
)
from coordinator_state.records.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

Fields = dict[str, Any]

FOO_AND_BAR = [{"topic": "foo", "partitions": [0]}, {"topic": "bar", "partitions": [0, 2]}]
SUBSCRIPTION: Fields = {
    "topics": ["foo", "bar"],
    "userData": b"hello",
    "ownedPartitions": FOO_AND_BAR,
    "generationId": 1,
    "rackId": "rack-a",
}
ASSIGNMENT: Fields = {"assignedPartitions": FOO_AND_BAR, "userData": b"hello"}


@pytest.mark.parametrize("version", [4, 100, 32767])
def test_a_future_version_is_read_as_the_newest(version: int) -> None:
    """As `deserializeFutureSubscriptionVersion` and `…Assignment…`: a new field is left over."""
    future = version.to_bytes(2, "big")
    subscription, assignment = encode_subscription(SUBSCRIPTION), encode_assignment(ASSIGNMENT)
    assert decode_subscription(future + subscription[2:] + b"\x00\x03bar") == SUBSCRIPTION
    assert decode_assignment(future + assignment[2:] + b"\x00\x03bar") == ASSIGNMENT


def test_deserialize_new_subscription_with_old_version() -> None:
    """As `deserializeNewSubscriptionWithOldVersion`: v0 is a prefix of every version."""
    raw = b"\x00\x00" + encode_subscription(SUBSCRIPTION)[2:]
    absent = {"ownedPartitions": (), "generationId": -1, "rackId": None}
    assert decode_subscription(raw) == SUBSCRIPTION | absent


@pytest.mark.parametrize("decode", [decode_subscription, decode_assignment])
def test_a_negative_version_is_refused(decode: Callable[[bytes], Fields]) -> None:
    with pytest.raises(UnsupportedVersion, match=r"v-1 at byte 0: negative version$"):
        decode(b"\xff\xff" + encode_subscription(SUBSCRIPTION)[2:])
