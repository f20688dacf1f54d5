"""Kafka's primitive types, beyond the messages that `records/test_golden.py` reads and writes.

That one also reads damaged messages of Kafka, with integers, lengths and nulls of every kind.

The varint vectors are those of Kafka's ByteUtilsTest (clients/src/test/java/org/apache/kafka/
common/utils/ByteUtilsTest.java at 4.2.0).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from coordinator_state.errors import EncodeError, InvalidLength, InvalidUtf8
from coordinator_state.records.serde import decode_versioned, encode_versioned
from coordinator_state.wire.primitives import (
    read_compact_nullable_string,
    read_nullable_string,
    read_unsigned_varint,
    read_uuid,
    read_varint,
    read_varlong,
    uuid_text,
    write_compact_nullable_string,
    write_nullable_string,
    write_unsigned_varint,
    write_varint,
)
from coordinator_state.wire.schema import Field, Schema
from tests.support.logs.prefixes import assert_no_prefix_is_enough

UNSIGNED_VARINTS = {
    0: "00",
    1: "01",
    127: "7f",
    128: "8001",
    16383: "ff7f",
    16384: "808001",
    2**31 - 1: "ffffffff07",
    2**31: "8080808008",
    2**32 - 1: "ffffffff0f",
}

VARLONGS = {
    17179869184: "808080808001",
    -17179869185: "818080808001",
    2**63 - 1: "feffffffffffffffff01",
    -(2**63): "ffffffffffffffffff01",
}


def _read(reader: Callable[[memoryview, int], tuple[Any, int]], text: str) -> Any:
    """Read hex whole, cut, in the middle of other bytes."""
    raw = bytes.fromhex(text)
    value, end = reader(memoryview(raw), 0)
    assert end == len(raw)
    assert_no_prefix_is_enough(lambda prefix: reader(memoryview(prefix), 0), raw)
    inside = memoryview(b"\xff\xff" + raw + b"\xff")
    assert reader(inside, 2) == (value, len(raw) + 2)
    return value


def _written(writer: Callable[[bytearray, Any], None], value: Any) -> str:
    out = bytearray(b"before")
    writer(out, value)
    assert out.startswith(b"before")
    return out[6:].hex()


@pytest.mark.parametrize(("value", "text"), UNSIGNED_VARINTS.items())
def test_varint(value: int, text: str) -> None:
    """Signed ones are zigzag: as int32 and as int64 alike."""
    assert _read(read_unsigned_varint, text) == value
    assert _written(write_unsigned_varint, value) == text
    signed = (value >> 1) ^ -(value & 1)
    assert _read(read_varint, text) == _read(read_varlong, text) == signed
    assert _written(write_varint, signed) == text


@pytest.mark.parametrize(("value", "text"), VARLONGS.items())
def test_varlong(value: int, text: str) -> None:
    assert _read(read_varlong, text) == value
    assert _written(write_varint, value) == text


def test_bits_of_a_varint_beyond_the_thirty_second_are_lost_as_in_java() -> None:
    assert _read(read_unsigned_varint, "ffffffff7f") == 2**32 - 1
    assert _read(read_varint, "8080808010") == 0


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (read_unsigned_varint, "ffffffffff01"),
        (read_varint, "ffffffffff01"),
        (read_varlong, "ffffffffffffffffffff01"),
    ],
)
def test_a_varint_without_an_end_is_refused(
    reader: Callable[[memoryview, int], tuple[int, int]], text: str
) -> None:
    with pytest.raises(InvalidLength, match="varint longer than") as caught:
        reader(memoryview(bytes.fromhex("00" + text)), 1)
    assert caught.value.position == 1
    assert caught.value.shown == bytes.fromhex(text[:-2])


def test_a_negative_unsigned_varint_is_not_written() -> None:
    with pytest.raises(EncodeError, match="cannot be negative: -1"):
        write_unsigned_varint(bytearray(), -1)


def test_a_flexible_string_is_no_longer_than_a_classic_one() -> None:
    longest = "808002" + "78" * 32767
    assert read_compact_nullable_string(memoryview(bytes.fromhex(longest)), 0)[0] == "x" * 32767

    with pytest.raises(InvalidLength, match="string of 32768 bytes"):
        read_compact_nullable_string(memoryview(bytes.fromhex("818002" + "78" * 32768)), 0)


def test_a_string_that_is_not_utf_8_tells_where() -> None:
    with pytest.raises(InvalidUtf8, match="not UTF-8") as caught:
        read_nullable_string(memoryview(b"\x00\x04ab\xc0\x80"), 0)
    assert (caught.value.position, caught.value.shown) == (4, b"\xc0\x80")


def test_an_error_shows_at_most_32_bytes() -> None:
    with pytest.raises(InvalidUtf8) as caught:
        read_nullable_string(memoryview(b"\x00\x64" + b"\xff" * 100), 0)
    assert str(caught.value) == (
        f"bytes at byte 2: not UTF-8: invalid start byte (bytes {'ff' * 32})"
    )


@pytest.mark.parametrize("writer", [write_nullable_string, write_compact_nullable_string])
def test_a_string_too_long_or_not_unicode_is_not_written(
    writer: Callable[[bytearray, str | None], None],
) -> None:
    with pytest.raises(EncodeError, match="string of 32768 bytes; the maximum is 32767"):
        writer(bytearray(), "x" * 32768)
    with pytest.raises(EncodeError, match="cannot be encoded as UTF-8"):
        writer(bytearray(), "\ud800")


def test_uuid_prints_as_kafka_prints_it() -> None:
    text = "523e709ff16a4d78ab1004af559458d7"
    topic_id = _read(read_uuid, text)

    assert topic_id == UUID(text)
    assert uuid_text(topic_id) == "Uj5wn_FqTXirEASvVZRY1w"
    assert uuid_text(UUID(int=2**128 - 1)) == "_____________________w"


# --- the schema language: what no record type has yet


def test_a_nullable_array_is_classic_too() -> None:
    field = Field(name="partitions", type="int32", is_array=True, is_nullable=True)
    schema = Schema(name="Assignment", versions=(0, 0), fields=(field,))

    for text, partitions in (("0000 ffffffff", None), ("0000 00000001 00000007", [7])):
        raw = bytes.fromhex(text)
        assert decode_versioned(schema, raw).fields == {"partitions": partitions}
        assert encode_versioned(schema, 0, {"partitions": partitions}) == raw
        assert_no_prefix_is_enough(partial(decode_versioned, schema), raw)
    assert decode_versioned(schema, bytes.fromhex("0000 80000000")).fields == {"partitions": None}
