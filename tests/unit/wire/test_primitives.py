"""Kafka's primitive types, beyond the messages that `records/test_golden.py` reads and writes.

The varint vectors are those of Kafka's ByteUtilsTest (clients/src/test/java/org/apache/kafka/
common/utils/ByteUtilsTest.java at 4.2.0).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from coordinator_state.errors import BufferUnderflow, EncodeError, InvalidLength, InvalidUtf8
from coordinator_state.records.serde import decode_versioned, encode_versioned
from coordinator_state.wire import primitives
from coordinator_state.wire.primitives import (
    read_compact_length,
    read_compact_nullable_string,
    read_exactly,
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


@pytest.mark.parametrize("name", ["int8", "int16", "uint16", "int32", "int64"])
def test_an_integer_is_big_endian_and_in_its_range(name: str) -> None:
    sign, _, bits = name.rpartition("int")
    size, signed = int(bits) // 8, not sign
    read, write = (getattr(primitives, f"{verb}_{name}") for verb in ("read", "write"))
    least = -(1 << (8 * size - 1)) if signed else 0
    most = least + (1 << 8 * size) - 1
    counting = int.from_bytes(bytes(range(1, size + 1)), "big")
    for value in (least, least + 1, 0, 1, counting, most - 1, most):
        text = value.to_bytes(size, "big", signed=signed).hex()
        assert (_read(read, text), _written(write, value)) == (value, text)
    for value in (least - 1, most + 1):
        with pytest.raises(EncodeError, match=f"{value} does not fit into {name}"):
            write(bytearray(), value)


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


def test_a_varint_may_be_written_long_and_loses_bits_beyond_the_thirty_second_as_in_java() -> None:
    assert _read(read_unsigned_varint, "8080808000") == 0
    assert _read(read_unsigned_varint, "8100") == 1
    assert _read(read_unsigned_varint, "8080808010") == 0
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


def test_read_exactly_takes_neither_more_nor_less() -> None:
    raw = memoryview(b"abcd")

    assert read_exactly(raw, 1, 2) == (b"bc", 3)
    assert read_exactly(raw, 4, 0) == (b"", 4)
    with pytest.raises(BufferUnderflow, match="3 bytes needed, 2 left"):
        read_exactly(raw, 2, 3)
    with pytest.raises(BufferUnderflow, match="1 bytes needed, 0 left"):
        read_exactly(raw, 9, 1)
    with pytest.raises(InvalidLength, match="negative length -1"):
        read_exactly(raw, 0, -1)


@pytest.mark.parametrize(
    ("kind", "written", "others"),
    [
        # In Kafka's readers, any negative length is null.
        ("nullable_string", "ffff", ["fffe", "8000"]),
        ("nullable_bytes", "ffffffff", ["fffffffe", "80000000"]),
        ("compact_nullable_string", "00", ["ffffffff0f"]),
        ("compact_nullable_bytes", "00", ["ffffffff0f"]),
    ],
)
def test_null(kind: str, written: str, others: list[str]) -> None:
    assert _written(getattr(primitives, f"write_{kind}"), None) == written
    for text in (written, *others):
        assert _read(getattr(primitives, f"read_{kind}"), text) is None


@pytest.mark.parametrize(
    ("text", "length"),
    [("00", -1), ("01", 0), ("8001", 127), ("ffffffff0f", -2), ("8080808008", 2**31 - 1)],
)
def test_a_flexible_length_wraps_as_javas_int(text: str, length: int) -> None:
    assert _read(read_compact_length, text) == length


def test_a_flexible_string_is_no_longer_than_a_classic_one() -> None:
    longest = "808002" + "78" * 32767
    assert read_compact_nullable_string(memoryview(bytes.fromhex(longest)), 0)[0] == "x" * 32767

    with pytest.raises(InvalidLength, match="string of 32768 bytes"):
        read_compact_nullable_string(memoryview(bytes.fromhex("818002" + "78" * 32768)), 0)


# No byte of UTF-8, a cut character, an overlong one, and a surrogate.
@pytest.mark.parametrize("text", ["ff", "c3", "c080", "eda080"])
def test_a_string_that_is_not_utf_8_tells_where(text: str) -> None:
    raw = bytes.fromhex(f"00{len(text) // 2 + 2:02x}6162{text}")

    with pytest.raises(InvalidUtf8, match="not UTF-8") as caught:
        read_nullable_string(memoryview(raw), 0)

    assert caught.value.position == 4
    assert caught.value.shown == bytes.fromhex(text)


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
