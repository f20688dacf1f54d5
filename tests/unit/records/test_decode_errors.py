"""Bytes that are no coordinator record: which error, and what it names.

Tests that name one of Kafka's follow GroupCoordinatorRecordSerdeTest at 4.2.0 and the Scala
GroupMetadataManagerTest of 3.9.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state.errors import (
    BufferUnderflow,
    DecodeError,
    InvalidLength,
    UnexpectedNull,
    UnknownRecordType,
    UnsupportedVersion,
)
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import decode_key, decode_value

OFFSET_COMMIT = RECORD_TYPES[1]
GROUP_METADATA = RECORD_TYPES[2]


@pytest.mark.parametrize("record_type", [255, -1, 18, 24, 32767])
def test_deserialize_with_invalid_record_type(record_type: int) -> None:
    """As `testDeserializeWithInvalidRecordType`, `testReadMessageKeyCanReadUnknownMessage`."""
    raw = record_type.to_bytes(2, "big", signed=True)

    with pytest.raises(UnknownRecordType, match=f"unknown record type {record_type}") as caught:
        decode_key(raw + b"garbage")
    assert caught.value.record_type == record_type


@pytest.mark.parametrize("raw", [b"", b"\x00"])
def test_deserialize_with_key_empty_buffer(raw: bytes) -> None:
    """As `testDeserializeWithKeyEmptyBuffer`."""
    with pytest.raises(BufferUnderflow, match=r"^record key field type at byte 0: 2 bytes needed"):
        decode_key(raw)


def test_deserialize_with_invalid_key_bytes() -> None:
    """As `testDeserializeWithInvalidKeyBytes`."""
    with pytest.raises(BufferUnderflow, match=r"^ConsumerGroupMetadataKey field groupId at byte 2"):
        decode_key(bytes.fromhex("0003"))


@pytest.mark.parametrize("raw", [b"", b"\x00"])
def test_deserialize_with_value_empty_buffer(raw: bytes) -> None:
    """As `testDeserializeWithValueEmptyBuffer`."""
    with pytest.raises(BufferUnderflow, match=r"^OffsetCommitValue field version at byte 0"):
        decode_value(OFFSET_COMMIT, raw)


def test_deserialize_with_invalid_value_bytes() -> None:
    """As `testDeserializeWithInvalidValueBytes`."""
    with pytest.raises(BufferUnderflow, match=r"^OffsetCommitValue v0 field offset at byte 2"):
        decode_value(OFFSET_COMMIT, bytes.fromhex("0000"))


@pytest.mark.parametrize("version", [-32768, -1, 5, 10])
@pytest.mark.parametrize("record_type", [0, 1, 2])
def test_should_throw_exception_for_unsupported_version(record_type: int, version: int) -> None:
    """As `testShouldThrowExceptionForUnsupportedGroupMetadataVersion`, and of offset commits."""
    raw = version.to_bytes(2, "big", signed=True) + b"\x00" * 40
    name = RECORD_TYPES[record_type].value_name

    with pytest.raises(UnsupportedVersion) as caught:
        decode_value(RECORD_TYPES[record_type], raw)

    assert str(caught.value) == (
        f"{name} v{version} field version at byte 0: unsupported version; known: 0 to 4"
    )


REFUSED_VALUES = [
    pytest.param(
        OFFSET_COMMIT,
        "0003 0000000000000064 00000005 ffff 00000000000004d2",
        UnexpectedNull,
        "OffsetCommitValue v3 field metadata at byte 14: null in a field that is not nullable",
        id="null metadata",
    ),
    pytest.param(
        OFFSET_COMMIT,
        "0004 0000000000000064 00000005 00 00000000000004d2 00",
        UnexpectedNull,
        "OffsetCommitValue v4 field metadata at byte 14: null in a field that is not nullable",
        id="null flexible metadata",
    ),
    pytest.param(
        OFFSET_COMMIT,
        "0003 0000000000000064 00000005 0001 ff 00000000000004d2",
        DecodeError,
        "OffsetCommitValue v3 field metadata at byte 16: not UTF-8: invalid start byte (bytes ff)",
        id="metadata that is not UTF-8",
    ),
    pytest.param(
        OFFSET_COMMIT,
        "0004 0000000000000064 00000005 02 6d 00000000000004d2 01 05 ffffffff0f",
        InvalidLength,
        "OffsetCommitValue v4 field tagged fields at byte 31: negative length -1",
        id="negative size of an unknown tag",
    ),
    pytest.param(
        OFFSET_COMMIT,
        "0004 0000000000000064 00000005 02 6d 00000000000004d2 01 00 10 00",
        BufferUnderflow,
        "OffsetCommitValue v4 field topicId at byte 27: 16 bytes needed, 1 left",
        id="cut topic id",
    ),
    pytest.param(
        GROUP_METADATA,
        "0000 0001 70 00000001 ffff ffff ffffffff",
        UnexpectedNull,
        "GroupMetadataValue v0 field members at byte 13: null in a field that is not nullable",
        id="null members",
    ),
    pytest.param(
        GROUP_METADATA,
        "0004 02 70 00000001 00 00 00000000000004d2 00",
        UnexpectedNull,
        "GroupMetadataValue v4 field members at byte 18: null in a field that is not nullable",
        id="null flexible members",
    ),
    pytest.param(
        GROUP_METADATA,
        "0000 0001 70 00000001 ffff ffff 7fffffff 0000",
        BufferUnderflow,
        "GroupMetadataValue v0 field members at byte 13: "
        "array of 2147483647 elements, 2 bytes left",
        id="more members than bytes",
    ),
    pytest.param(
        GROUP_METADATA,
        "0000 0001 70 00000001 ffff ffff 00000001 0001 6d 0001 63 0001 68 000005dc"
        "ffffffff 00000000",
        UnexpectedNull,
        "GroupMetadataValue v0 field members[0].subscription at byte 30: "
        "null in a field that is not nullable",
        id="null subscription",
    ),
]


@pytest.mark.parametrize(("record_type", "text", "error", "message"), REFUSED_VALUES)
def test_a_refused_value_names_type_version_field_and_position(
    record_type: Any, text: str, error: type[DecodeError], message: str
) -> None:
    with pytest.raises(error) as caught:
        decode_value(record_type, bytes.fromhex(text))

    assert str(caught.value) == message


def test_a_null_in_a_key_is_refused() -> None:
    with pytest.raises(UnexpectedNull, match=r"^OffsetCommitKey field group at byte 2: null"):
        decode_key(bytes.fromhex("0001 ffff 0001 74 00000003"))
