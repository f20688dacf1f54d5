"""Subscription and assignment bytes that `test_golden.py` has not.

Tests that name one of Kafka's follow ConsumerProtocolTest (clients/src/test/java/org/apache/kafka/
clients/consumer/internals at 4.2.0).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator_state.errors import (
    BufferUnderflow,
    DecodeError,
    EncodeError,
    UnexpectedNull,
    UnsupportedVersion,
)
from coordinator_state.records.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tests.support.logs.prefixes import assert_no_prefix_is_enough

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


def test_no_strict_prefix_is_enough() -> None:
    assert_no_prefix_is_enough(decode_subscription, encode_subscription(SUBSCRIPTION))
    version, body = encode_assignment(ASSIGNMENT)[:2], encode_assignment(ASSIGNMENT)[2:]
    assert_no_prefix_is_enough(lambda prefix: decode_assignment(version + prefix), body)
    with pytest.raises(BufferUnderflow, match=r"^ConsumerProtocolSubscription field version at"):
        decode_subscription(b"")


def test_an_assignment_of_no_bytes_is_that_of_a_member_without_partitions() -> None:
    assert decode_assignment(b"") == {"assignedPartitions": [], "userData": None}


@pytest.mark.parametrize(
    ("version", "lost"), [(0, "ownedPartitions"), (1, "generationId"), (2, "rackId")]
)
def test_a_field_that_the_version_lacks_is_not_silently_lost(version: int, lost: str) -> None:
    with pytest.raises(EncodeError, match=f"{lost} does not exist in version {version}"):
        encode_subscription(SUBSCRIPTION, version)


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


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "0001 00000001 0001 74 ffffffff ffffffff",
            UnexpectedNull,
            r"^ConsumerProtocolSubscription v1 field ownedPartitions at byte 13: "
            r"null in a field that is not nullable$",
        ),
        ("0000 00000002 0001 74 ff", DecodeError, r"v0 field topics\[1\] at byte 9: 2 bytes neede"),
        # What Connect's workers store as their subscription: a URL where the topics would be.
        (
            "0001 0015 687474703a2f2f6c6f63616c686f73743a38303833" + "00" * 12,
            DecodeError,
            "field topics",
        ),
    ],
    ids=["null", "cut", "another protocol type"],
)
def test_bytes_that_are_no_subscription(text: str, error: type[DecodeError], message: str) -> None:
    with pytest.raises(error, match=message):
        decode_subscription(bytes.fromhex(text))
