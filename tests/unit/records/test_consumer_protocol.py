"""Subscription and assignment bytes.

The vectors are Kafka 4.2.0's own bytes, the other tests follow ConsumerProtocolTest
(clients/src/test/java/org/apache/kafka/clients/consumer/internals at 4.2.0).
"""

from __future__ import annotations

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
from tests.support.logs.prefixes import assert_no_prefix_is_enough, strict_prefixes

SUBSCRIPTION = bytes.fromhex(
    "0003 00000001 0001 74 ffffffff 00000001 0001 74 00000001 00000003 00000004 0002 7231"
)
ASSIGNMENT = bytes.fromhex("0003 00000001 0001 74 00000001 00000003 ffffffff")

FOO_AND_BAR = [{"topic": "foo", "partitions": [0]}, {"topic": "bar", "partitions": [0, 2]}]


def subscription(**fields: Any) -> dict[str, Any]:
    """Every field of a subscription."""
    return {
        "topics": ["foo", "bar"],
        "userData": b"hello",
        "ownedPartitions": FOO_AND_BAR,
        "generationId": 1,
        "rackId": "rack-a",
        **fields,
    }


def test_subscription() -> None:
    fields = subscription(
        topics=["t"],
        userData=None,
        ownedPartitions=[{"topic": "t", "partitions": [3]}],
        generationId=4,
        rackId="r1",
    )

    assert decode_subscription(SUBSCRIPTION) == fields
    assert encode_subscription(fields) == SUBSCRIPTION
    assert_no_prefix_is_enough(decode_subscription, SUBSCRIPTION)
    assert decode_subscription(SUBSCRIPTION + b"\x00") == fields


def test_assignment() -> None:
    fields = {"assignedPartitions": [{"topic": "t", "partitions": [3]}], "userData": None}

    assert decode_assignment(ASSIGNMENT) == fields
    assert encode_assignment(fields) == ASSIGNMENT
    for prefix in strict_prefixes(ASSIGNMENT[1:]):
        with pytest.raises(BufferUnderflow):
            decode_assignment(ASSIGNMENT[:1] + prefix)
    assert decode_assignment(ASSIGNMENT + b"\x00") == fields


def test_an_assignment_of_no_bytes_is_that_of_a_member_without_partitions() -> None:
    assert decode_assignment(b"") == {"assignedPartitions": [], "userData": None}
    with pytest.raises(BufferUnderflow, match=r"^ConsumerProtocolSubscription field version at"):
        decode_subscription(b"")


@pytest.mark.parametrize("version", range(4))
def test_serialize_deserialize_subscription_all_versions(version: int) -> None:
    """As `serializeDeserializeSubscriptionAllVersions`: what a version lacks reads as default."""
    fields = subscription(
        ownedPartitions=FOO_AND_BAR if version >= 1 else (),
        generationId=1 if version >= 2 else -1,
        rackId="rack-a" if version >= 3 else None,
    )

    assert decode_subscription(encode_subscription(fields, version)) == fields


@pytest.mark.parametrize(
    ("version", "lost"), [(0, "ownedPartitions"), (1, "generationId"), (2, "rackId")]
)
def test_a_field_that_the_version_lacks_is_not_silently_lost(version: int, lost: str) -> None:
    with pytest.raises(EncodeError, match=f"{lost} does not exist in version {version}"):
        encode_subscription(subscription(), version)


@pytest.mark.parametrize("user_data", [b"", None])
def test_serialize_deserialize_null_subscription_user_data(user_data: bytes | None) -> None:
    """As `serializeDeserializeNullSubscriptionUserData`: empty and null are not the same."""
    fields = subscription(userData=user_data)

    assert decode_subscription(encode_subscription(fields)) == fields


@pytest.mark.parametrize("version", [100, 32767])
def test_deserialize_future_subscription_version(version: int) -> None:
    """As `deserializeFutureSubscriptionVersion`: read as the newest, the new field left over."""
    raw = encode_subscription(subscription())[2:] + b"\x00\x03bar"

    assert decode_subscription(version.to_bytes(2, "big") + raw) == subscription()


def test_deserialize_new_subscription_with_old_version() -> None:
    """As `deserializeNewSubscriptionWithOldVersion`: v0 is a prefix of every version."""
    raw = b"\x00\x00" + encode_subscription(subscription())[2:]

    assert decode_subscription(raw) == subscription(
        ownedPartitions=(), generationId=-1, rackId=None
    )


@pytest.mark.parametrize("version", range(4))
def test_serialize_deserialize_assignment_all_versions(version: int) -> None:
    """As `serializeDeserializeAssignmentAllVersions`."""
    fields = {"assignedPartitions": FOO_AND_BAR, "userData": b"hello"}
    raw = encode_assignment(fields, version)

    assert raw[:2] == version.to_bytes(2, "big")
    assert raw[2:] == encode_assignment(fields)[2:]
    assert decode_assignment(raw) == fields


def test_deserialize_null_assignment_user_data() -> None:
    """As `deserializeNullAssignmentUserData`."""
    fields = {"assignedPartitions": FOO_AND_BAR, "userData": None}

    assert decode_assignment(encode_assignment(fields)) == fields


def test_deserialize_future_assignment_version() -> None:
    """As `deserializeFutureAssignmentVersion`."""
    fields = {"assignedPartitions": [{"topic": "foo", "partitions": [1]}], "userData": b""}

    assert decode_assignment(b"\x00\x64" + encode_assignment(fields)[2:] + b"\x00\x03bar") == fields


@pytest.mark.parametrize("decode", [decode_subscription, decode_assignment])
def test_a_negative_version_is_refused(decode: Any) -> None:
    with pytest.raises(UnsupportedVersion, match=r"v-1 at byte 0: negative version$"):
        decode(b"\xff\xff" + SUBSCRIPTION[2:])


def test_what_is_no_subscription_names_the_field() -> None:
    with pytest.raises(UnexpectedNull) as caught:
        decode_subscription(bytes.fromhex("0001 00000001 0001 74 ffffffff ffffffff"))
    assert str(caught.value) == (
        "ConsumerProtocolSubscription v1 field ownedPartitions at byte 13: "
        "null in a field that is not nullable"
    )
    with pytest.raises(DecodeError, match=r"v0 field topics\[1\] at byte 9: 2 bytes needed"):
        decode_subscription(bytes.fromhex("0000 00000002 0001 74 ff"))


def test_the_metadata_of_another_protocol_type_is_refused() -> None:
    """What Connect's workers store as their subscription: a URL where the topics would be."""
    connect = bytes.fromhex("0001 0015 687474703a2f2f6c6f63616c686f73743a38303833") + b"\x00" * 12

    with pytest.raises(DecodeError):
        decode_subscription(connect)
