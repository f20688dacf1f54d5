"""Readers and writers of Kafka's primitive types.

A reader is `(buffer, position) -> (value, new position)`; a writer appends to a `bytearray`.
Integers are big-endian two's complement. Every reader checks a length before it reads the bytes, so
a wrong length in the data never makes it allocate memory or read past the end.

The length prefix depends on the encoding:

- classic: int16 for strings, int32 for bytes and arrays; negative means null;
- flexible (KIP-482): an unsigned varint of length + 1; 0 means null.

Source: clients/src/main/java/org/apache/kafka/common/protocol/ByteBufferAccessor.java and
common/utils/ByteUtils.java at 4.2.0; KIP-482.
"""

from __future__ import annotations

import struct
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from coordinator_state.errors import (
    BufferUnderflow,
    EncodeError,
    InvalidLength,
    InvalidUtf8,
)

T = TypeVar("T")
Reader = Callable[[memoryview, int], tuple[T, int]]

ZERO_UUID = uuid.UUID(int=0)
MAX_STRING_BYTES = 0x7FFF
"""`Short.MAX_VALUE`; the limit holds for flexible strings too."""

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_UINT16 = struct.Struct(">H")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


def _reader_of(layout: struct.Struct) -> Reader[int]:
    size = layout.size

    def read(buffer: memoryview, position: int) -> tuple[int, int]:
        if position + size > len(buffer):
            raise BufferUnderflow(
                f"{size} bytes needed, {max(0, len(buffer) - position)} left",
                position=position,
            )
        (value,) = layout.unpack_from(buffer, position)
        return value, position + size

    return read


read_int8 = _reader_of(_INT8)
read_int16 = _reader_of(_INT16)
read_uint16 = _reader_of(_UINT16)
read_int32 = _reader_of(_INT32)
read_int64 = _reader_of(_INT64)


def _read_varint_bits(buffer: memoryview, position: int, most_bytes: int) -> tuple[int, int]:
    result = 0
    start = position
    for shift in range(0, 7 * most_bytes, 7):
        if position >= len(buffer):
            raise BufferUnderflow("incomplete varint", position=position)
        byte = buffer[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return result, position
    raise InvalidLength(
        f"varint longer than {most_bytes} bytes",
        position=start,
        shown=bytes(buffer[start:position]),
    )


def read_unsigned_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    """Read base-128, least significant group first: at most five bytes, modulo 2^32."""
    bits, position = _read_varint_bits(buffer, position, 5)
    return bits & 0xFFFFFFFF, position


def read_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    """Read a zigzag int32, as in a record's lengths and offset delta."""
    bits, position = _read_varint_bits(buffer, position, 5)
    bits &= 0xFFFFFFFF
    return (bits >> 1) ^ -(bits & 1), position


def read_varlong(buffer: memoryview, position: int) -> tuple[int, int]:
    """Read a zigzag int64, as in a record's timestamp delta."""
    bits, position = _read_varint_bits(buffer, position, 10)
    bits &= 0xFFFFFFFFFFFFFFFF
    return (bits >> 1) ^ -(bits & 1), position


def read_exactly(buffer: memoryview, position: int, length: int) -> tuple[bytes, int]:
    """Read `length` raw bytes; a negative or too large length is an error at `position`."""
    if length < 0:
        raise InvalidLength(f"negative length {length}", position=position)
    end = position + length
    if end > len(buffer):
        raise BufferUnderflow(
            f"{length} bytes needed, {max(0, len(buffer) - position)} left",
            position=position,
        )
    return bytes(buffer[position:end]), end


def _decode_utf8(raw: bytes, position: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidUtf8(
            f"not UTF-8: {error.reason}",
            position=position + error.start,
            shown=raw[error.start :],
        ) from error


def read_nullable_bytes(buffer: memoryview, position: int) -> tuple[bytes | None, int]:
    """Read classic bytes: int32 length, negative for null."""
    length, position = read_int32(buffer, position)
    return _read_nullable_bytes(buffer, position, length)


def read_compact_nullable_bytes(buffer: memoryview, position: int) -> tuple[bytes | None, int]:
    """Read flexible bytes: unsigned varint of length + 1, 0 for null."""
    length, position = read_compact_length(buffer, position)
    return _read_nullable_bytes(buffer, position, length)


def read_nullable_string(buffer: memoryview, position: int) -> tuple[str | None, int]:
    """Read a classic string: int16 length, negative for null."""
    length, position = read_int16(buffer, position)
    return _read_nullable_string(buffer, position, length)


def read_compact_nullable_string(buffer: memoryview, position: int) -> tuple[str | None, int]:
    """Read a flexible string: unsigned varint of length + 1, 0 for null."""
    length, body = read_compact_length(buffer, position)
    if length > MAX_STRING_BYTES:
        raise InvalidLength(f"string of {length} bytes", position=position)
    return _read_nullable_string(buffer, body, length)


def read_compact_length(buffer: memoryview, position: int) -> tuple[int, int]:
    """Read the length of a flexible field (an unsigned varint of length + 1); -1 for null."""
    bits, position = read_unsigned_varint(buffer, position)
    return as_int32(bits - 1), position


def as_int32(bits: int) -> int:
    """Wrap to 32 bits, as Java's int arithmetic does.

    >>> as_int32(0xFFFFFFFF)
    -1
    """
    return (bits + 2**31) % 2**32 - 2**31


def _read_nullable_bytes(
    buffer: memoryview, position: int, length: int
) -> tuple[bytes | None, int]:
    # Kafka's generated readers take any negative length as null; the writers write only -1.
    return (None, position) if length < 0 else read_exactly(buffer, position, length)


def _read_nullable_string(buffer: memoryview, position: int, length: int) -> tuple[str | None, int]:
    raw, end = _read_nullable_bytes(buffer, position, length)
    return (None if raw is None else _decode_utf8(raw, position)), end


def read_uuid(buffer: memoryview, position: int) -> tuple[uuid.UUID, int]:
    """Read sixteen bytes, most significant first."""
    raw, end = read_exactly(buffer, position, 16)
    return uuid.UUID(bytes=raw), end


# Each record of a group names its topics.
@lru_cache(maxsize=1 << 12)
def uuid_text(value: uuid.UUID) -> str:
    """Format a uuid as Kafka prints it: url-safe base64 without padding.

    >>> uuid_text(uuid.UUID(int=0))
    'AAAAAAAAAAAAAAAAAAAAAA'

    Source: clients/src/main/java/org/apache/kafka/common/Uuid.java at 4.2.0.
    """
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> uuid.UUID:
    """Parse the text that `uuid_text` returns.

    Raises:
        ValueError: the text is not 16 bytes in url-safe base64.
    """
    return uuid.UUID(bytes=urlsafe_b64decode(text + "=="))


def _writer_of(layout: struct.Struct, name: str) -> Callable[[bytearray, int], None]:
    def write(out: bytearray, value: int) -> None:
        try:
            out += layout.pack(value)
        except struct.error as error:
            raise EncodeError(f"{value!r} does not fit into {name}") from error

    return write


write_int8 = _writer_of(_INT8, "int8")
write_int16 = _writer_of(_INT16, "int16")
write_uint16 = _writer_of(_UINT16, "uint16")
write_int32 = _writer_of(_INT32, "int32")
write_int64 = _writer_of(_INT64, "int64")


def write_unsigned_varint(out: bytearray, value: int) -> None:
    """Write base-128, least significant group first."""
    if value < 0:
        raise EncodeError(f"an unsigned varint cannot be negative: {value}")
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def write_varint(out: bytearray, value: int) -> None:
    """Write the zigzag varint of an int32 or int64."""
    write_unsigned_varint(out, ((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF)


def write_nullable_bytes(out: bytearray, value: bytes | None) -> None:
    """Write classic bytes."""
    write_int32(out, -1 if value is None else len(value))
    out += value or b""


def write_compact_nullable_bytes(out: bytearray, value: bytes | None) -> None:
    """Write flexible bytes."""
    write_unsigned_varint(out, 0 if value is None else len(value) + 1)
    out += value or b""


def write_nullable_string(out: bytearray, value: str | None) -> None:
    """Write a classic string."""
    raw = None if value is None else _encode_utf8(value)
    write_int16(out, -1 if raw is None else len(raw))
    out += raw or b""


def write_compact_nullable_string(out: bytearray, value: str | None) -> None:
    """Write a flexible string."""
    write_compact_nullable_bytes(out, None if value is None else _encode_utf8(value))


def _encode_utf8(value: str) -> bytes:
    try:
        raw = value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise EncodeError(f"{value!r} cannot be encoded as UTF-8") from error
    if len(raw) > MAX_STRING_BYTES:
        raise EncodeError(f"string of {len(raw)} bytes; the maximum is {MAX_STRING_BYTES}")
    return raw
