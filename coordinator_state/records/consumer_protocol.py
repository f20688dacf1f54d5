"""The consumer protocol: the member bytes of groups with protocol type "consumer".

Both messages are an int16 version and a body that is never flexible. New versions only append
fields, so a version above the newest known one is read as the newest, as Kafka's clients do.

Subscription: topics and user data; since v1 owned partitions (KIP-429); since v2 the generation id
(KIP-792); since v3 the rack id (KIP-881). Assignment: partitions by topic and user data, the same
in v0 to v3. An assignment of zero bytes means that the leader assigned nothing to the member.

Source: clients/src/main/resources/common/message/ConsumerProtocol{Subscription,Assignment}.json and
clients/src/main/java/org/apache/kafka/clients/consumer/internals/ConsumerProtocol.java at 4.2.0.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from coordinator_state.records.serde import DecodedValue, decode_appended, encode_versioned
from coordinator_state.wire.schema import ANY_VERSION, Field, Schema
from coordinator_state.wire.struct_reader import Fields

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of classic groups whose members are consumers."""

NEWEST_VERSION = 3
# The members of a group subscribe alike, and a member is decoded for its row and for its JSON.
_CACHED: Final = 1_000

_TOPIC_PARTITIONS = (
    Field(name="topic", type="string"),
    Field(name="partitions", type="int32", is_array=True),
)

SUBSCRIPTION = Schema(
    name="ConsumerProtocolSubscription",
    versions=(0, NEWEST_VERSION),
    fields=(
        Field(name="topics", type="string", is_array=True),
        Field(name="userData", type="bytes", is_nullable=True),
        Field(
            name="ownedPartitions",
            type="struct",
            is_array=True,
            versions=(1, ANY_VERSION),
            default=(),
            fields=_TOPIC_PARTITIONS,
        ),
        Field(name="generationId", type="int32", versions=(2, ANY_VERSION), default=-1),
        Field(name="rackId", type="string", versions=(3, ANY_VERSION), is_nullable=True),
    ),
)

ASSIGNMENT = Schema(
    name="ConsumerProtocolAssignment",
    versions=(0, NEWEST_VERSION),
    fields=(
        Field(
            name="assignedPartitions",
            type="struct",
            is_array=True,
            fields=_TOPIC_PARTITIONS,
        ),
        Field(name="userData", type="bytes", is_nullable=True),
    ),
)


@lru_cache(maxsize=_CACHED)
def decoded_subscription(raw: bytes) -> DecodedValue:
    """Read a member's subscription bytes; several callers may share the result.

    Raises:
        DecodeError: the bytes are not a consumer protocol subscription.
    """
    return decode_appended(SUBSCRIPTION, raw)


@lru_cache(maxsize=_CACHED)
def decoded_assignment(raw: bytes) -> DecodedValue:
    """Read a member's assignment bytes; several callers may share the result.

    Raises:
        DecodeError: the bytes are not a consumer protocol assignment; zero bytes are none.
    """
    return decode_appended(ASSIGNMENT, raw)


def decode_subscription(raw: bytes) -> Fields:
    """Read a member's subscription bytes.

    Raises:
        DecodeError: the bytes are not a consumer protocol subscription.
    """
    return decoded_subscription(raw).fields


def decode_subscribed_topics(raw: bytes) -> list[str]:
    """Read the subscribed topics as a coordinator does: it reads only the fields of v0.

    Raises:
        DecodeError: the bytes are not a consumer protocol subscription.
    """
    topics: list[str] = decode_appended(SUBSCRIPTION, raw, newest_version=0).fields["topics"]
    return topics


def decode_assignment(raw: bytes) -> Fields:
    """Read a member's assignment bytes; zero bytes are an empty assignment.

    Raises:
        DecodeError: the bytes are not a consumer protocol assignment.
    """
    if not raw:
        return {"assignedPartitions": [], "userData": None}
    return decoded_assignment(raw).fields


def encode_subscription(fields: Fields, version: int = NEWEST_VERSION) -> bytes:
    """Write subscription bytes."""
    return encode_versioned(SUBSCRIPTION, version, fields)


def encode_assignment(fields: Fields, version: int = NEWEST_VERSION) -> bytes:
    """Write assignment bytes."""
    return encode_versioned(ASSIGNMENT, version, fields)
