"""The reader of all message schemas: bytes to fields, with Kafka's names.

It behaves as the `read` methods that Kafka generates.

Source: generator/src/main/java/org/apache/kafka/message/MessageDataGenerator.java at 4.2.0;
KIP-482.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from struct import calcsize, unpack_from
from typing import Any, Final

from coordinator_state.errors import BufferUnderflow, DecodeError, UnexpectedNull
from coordinator_state.wire.primitives import (
    as_int32,
    read_compact_length,
    read_compact_nullable_bytes,
    read_compact_nullable_string,
    read_exactly,
    read_int8,
    read_int16,
    read_int32,
    read_int64,
    read_nullable_bytes,
    read_nullable_string,
    read_uint16,
    read_unsigned_varint,
    read_uuid,
)
from coordinator_state.wire.schema import Field

Fields = dict[str, Any]
"""All fields of a schema by Kafka's names; fields that the version lacks have their default."""

_READERS: dict[str, Callable[[memoryview, int], tuple[Any, int]]] = {
    "int8": read_int8,
    "int16": read_int16,
    "uint16": read_uint16,
    "int32": read_int32,
    "int64": read_int64,
    "uuid": read_uuid,
}
_CODES: Final = {"int8": "b", "int16": "h", "int32": "i", "int64": "q"}
"""One call reads an array of these."""


def read_struct(
    schema: tuple[Field, ...],
    version: int,
    flexible: bool,
    buffer: memoryview,
    position: int,
) -> tuple[Fields, int]:
    """Read the fields of one struct in the given version.

    Returns:
        The fields, and the position after them.

    Raises:
        DecodeError: the bytes are not this struct; it names the field and the position.
    """
    values: Fields = {}
    for field in schema:
        if field.tag is not None or not field.is_in(version):
            values[field.name] = copy(field.default)
            continue
        values[field.name], position = _read_named(field, version, flexible, buffer, position)
    if flexible:
        position = _read_tagged_fields(schema, version, values, buffer, position)
    return values, position


def _read_named(
    field: Field, version: int, flexible: bool, buffer: memoryview, position: int
) -> tuple[Any, int]:
    try:
        if field.is_array:
            return _read_array(field, version, flexible, buffer, position)
        return _read_single(field, version, flexible, buffer, position)
    except DecodeError as error:
        error.within(field=field.name)
        raise


def _read_single(
    field: Field, version: int, flexible: bool, buffer: memoryview, position: int
) -> tuple[Any, int]:
    value: Any
    if field.type == "struct":
        if field.is_nullable_single:
            is_null, position = _read_null_marker(field, buffer, position)
            if is_null:
                return None, position
        return read_struct(field.fields, version, flexible, buffer, position)
    if field.type == "string":
        read_string = read_compact_nullable_string if flexible else read_nullable_string
        value, end = read_string(buffer, position)
    elif field.type == "bytes":
        read_bytes = read_compact_nullable_bytes if flexible else read_nullable_bytes
        value, end = read_bytes(buffer, position)
    else:
        return _READERS[field.type](buffer, position)
    if value is None and not field.is_nullable_single:
        raise UnexpectedNull("null in a field that is not nullable", position=position)
    return value, end


def _read_null_marker(field: Field, buffer: memoryview, position: int) -> tuple[bool, int]:
    """Read whether a struct is null: int8 < 0; in a tagged field an unsigned varint of 0."""
    if field.tag is None:
        marker, position = read_int8(buffer, position)
        return marker < 0, position
    marker, position = read_unsigned_varint(buffer, position)
    return as_int32(marker) <= 0, position


def _read_array(
    field: Field, version: int, flexible: bool, buffer: memoryview, position: int
) -> tuple[list[Any] | None, int]:
    start = position
    length, position = (read_compact_length if flexible else read_int32)(buffer, position)
    if length < 0:
        if field.is_nullable:
            return None, position
        raise UnexpectedNull("null in a field that is not nullable", position=start)
    # Each element needs at least one byte, so too large a length is refused before any work.
    if length > len(buffer) - position:
        raise BufferUnderflow(
            f"array of {length} elements, {len(buffer) - position} bytes left",
            position=start,
        )
    if field.type in _CODES:
        codes = f">{length}{_CODES[field.type]}"
        end = position + calcsize(codes)
        if end <= len(buffer):
            return [*unpack_from(codes, buffer, position)], end
    values = []
    for index in range(length):
        try:
            value, position = _read_single(field, version, flexible, buffer, position)
        except DecodeError as error:
            error.within(field=f"[{index}]")
            raise
        values.append(value)
    return values, position


def _read_tagged_fields(
    schema: tuple[Field, ...],
    version: int,
    values: Fields,
    buffer: memoryview,
    position: int,
) -> int:
    try:
        count, position = read_unsigned_varint(buffer, position)
        for _ in range(as_int32(count)):
            tag, position = read_unsigned_varint(buffer, position)
            size, position = read_unsigned_varint(buffer, position)
            known = next((f for f in schema if f.tag == tag and f.is_in(version)), None)
            if known is None:
                _, position = read_exactly(buffer, position, as_int32(size))
            else:
                # Kafka's generated readers ignore the size of a known tag, too.
                values[known.name], position = _read_named(known, version, True, buffer, position)
    except DecodeError as error:
        error.within(field=None if error.field else "tagged fields")
        raise
    return position
