"""Bytes of coordinator records to fields and back, by the table of `record_types`.

Trailing bytes after a key or a value are not an error, as in Kafka's own serde; their count is
told.

Source: coordinator-common/src/main/java/org/apache/kafka/coordinator/common/runtime/
CoordinatorRecordSerde.java and the generated message classes at 4.2.0; KIP-482.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from coordinator_state.errors import (
    BufferUnderflow,
    DecodeError,
    EncodeError,
    UnexpectedNull,
    UnknownRecordType,
    UnsupportedVersion,
)
from coordinator_state.primitives import (
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
    uuid_text,
    write_compact_nullable_bytes,
    write_compact_nullable_string,
    write_int8,
    write_int16,
    write_int32,
    write_int64,
    write_nullable_bytes,
    write_nullable_string,
    write_uint16,
    write_unsigned_varint,
)
from coordinator_state.record_types import RECORD_TYPES, Field, RecordType, Schema

Fields = dict[str, Any]

_READERS: dict[str, Callable[[memoryview, int], tuple[Any, int]]] = {
    "int8": read_int8,
    "int16": read_int16,
    "uint16": read_uint16,
    "int32": read_int32,
    "int64": read_int64,
    "uuid": read_uuid,
}
_WRITERS: dict[str, Callable[[bytearray, Any], None]] = {
    "int8": write_int8,
    "int16": write_int16,
    "uint16": write_uint16,
    "int32": write_int32,
    "int64": write_int64,
    "uuid": lambda out, value: out.extend(value.bytes),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedKey:
    """A record's key: its type and fields by Kafka's names."""

    record_type: RecordType
    fields: Fields
    trailing_bytes: int

    @property
    def group_id(self) -> str:
        """The group that every coordinator record belongs to."""
        first_field = self.record_type.key_fields[0].name
        group_id: str = self.fields[first_field]
        return group_id


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedValue:
    """A record's value: its version and every field of the schema, defaults where absent."""

    schema: Schema
    version: int
    fields: Fields
    trailing_bytes: int


def decode_key(raw: bytes | memoryview) -> DecodedKey:
    """Read a record key: int16 record type, then its fields.

    Raises:
        UnknownRecordType: no supported Kafka version writes this type.
        DecodeError: the bytes are not a key of their type.
    """
    buffer = memoryview(raw)
    try:
        type_id, position = read_int16(buffer, 0)
    except DecodeError as error:
        error.within(record_type="record key", field="type")
        raise
    record_type = RECORD_TYPES.get(type_id)
    if record_type is None:
        raise UnknownRecordType(type_id)
    try:
        fields, position = _read_struct(record_type.key_fields, 0, False, buffer, position)
    except DecodeError as error:
        error.within(record_type=record_type.key_name)
        raise
    return DecodedKey(record_type=record_type, fields=fields, trailing_bytes=len(buffer) - position)


def decode_value(record_type: RecordType, raw: bytes | memoryview) -> DecodedValue:
    """Read a record value of a modelled type: int16 version, then its fields.

    Raises:
        DecodeError: unsupported version, or bytes that are not a value of this version.
        ValueError: the type's values are not modelled (`record_type.versions` is None).
    """
    if record_type.value is None:
        raise ValueError(f"values of {record_type.name} are not modelled")
    return decode_versioned(record_type.value, raw)


def decode_versioned(schema: Schema, raw: bytes | memoryview) -> DecodedValue:
    """Read an int16 version and then the message of that version."""
    buffer = memoryview(raw)
    try:
        version, position = read_int16(buffer, 0)
    except DecodeError as error:
        error.within(record_type=schema.name, field="version")
        raise
    first, last = schema.versions
    if not first <= version <= last:
        raise UnsupportedVersion(
            f"versions {first} to {last} are known",
            position=0,
            record_type=schema.name,
            version=version,
            field="version",
        )
    return decode_body(schema, version, buffer, position)


def decode_body(
    schema: Schema, version: int, buffer: memoryview, position: int = 0
) -> DecodedValue:
    """Read the fields of a message whose version is known already."""
    try:
        fields, position = _read_struct(
            schema.fields, version, schema.is_flexible(version), buffer, position
        )
    except DecodeError as error:
        error.within(record_type=schema.name, version=version)
        raise
    return DecodedValue(
        schema=schema,
        version=version,
        fields=fields,
        trailing_bytes=len(buffer) - position,
    )


def encode_key(record_type: RecordType, fields: Mapping[str, Any]) -> bytes:
    """Write a record key.

    Raises:
        EncodeError: a field is missing or does not fit.
    """
    out = bytearray()
    write_int16(out, record_type.id)
    _write_struct(record_type.key_fields, 0, False, out, fields, record_type.key_name)
    return bytes(out)


def encode_value(record_type: RecordType, version: int, fields: Mapping[str, Any]) -> bytes:
    """Write a record value of a modelled type in the given version.

    Raises:
        EncodeError: unknown version, a field is missing, does not fit, or is set though the version
            has no place for it.
        ValueError: the type's values are not modelled.
    """
    if record_type.value is None:
        raise ValueError(f"values of {record_type.name} are not modelled")
    return encode_versioned(record_type.value, version, fields)


def encode_versioned(schema: Schema, version: int, fields: Mapping[str, Any]) -> bytes:
    """Write an int16 version and then the message in that version."""
    first, last = schema.versions
    if not first <= version <= last:
        raise EncodeError(f"{schema.name} has versions {first} to {last}, not {version}")
    out = bytearray()
    write_int16(out, version)
    _write_struct(schema.fields, version, schema.is_flexible(version), out, fields, schema.name)
    return bytes(out)


def formatter_json(key: DecodedKey, value: DecodedValue | None) -> dict[str, Any]:
    """One record as Kafka's own message formatters print it; a tombstone has the value None.

    Source:
    tools/src/main/java/org/apache/kafka/tools/consumer/CoordinatorRecordMessageFormatter.java at
    4.2.0.
    """
    return {
        "key": {
            "type": key.record_type.id,
            "data": _struct_json(key.record_type.key_fields, 0, key.fields),
        },
        "value": None if value is None else value_json(value),
    }


def value_json(value: DecodedValue) -> dict[str, Any]:
    """A value as Kafka's generated JSON converters print it.

    Only fields of the value's version, in schema order; bytes as base64, uuids url-safe; a tagged
    field with its default is left out.
    """
    return {
        "version": value.version,
        "data": _struct_json(value.schema.fields, value.version, value.fields),
    }


def key_json(key: DecodedKey) -> dict[str, Any]:
    """The fields of a key as Kafka's JSON converters print them."""
    return _struct_json(key.record_type.key_fields, 0, key.fields)


# --- reading
# ---------------------------------------------------------------------------------------


def _read_struct(
    schema: tuple[Field, ...],
    version: int,
    flexible: bool,
    buffer: memoryview,
    position: int,
) -> tuple[Fields, int]:
    values: Fields = {}
    for field in schema:
        if field.tag is not None or not field.is_in(version):
            values[field.name] = field.default
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
            marker, position = read_int8(buffer, position)
            if marker < 0:
                return None, position
        return _read_struct(field.fields, version, flexible, buffer, position)
    if field.type == "string":
        read_string = read_compact_nullable_string if flexible else read_nullable_string
        value, end = read_string(buffer, position)
    elif field.type == "bytes":
        read_bytes = read_compact_nullable_bytes if flexible else read_nullable_bytes
        value, end = read_bytes(buffer, position)
    else:
        return _READERS[field.type](buffer, position)
    if value is None and not field.is_nullable_single:
        raise UnexpectedNull("null in a field that is never null", position=position)
    return value, end


def _read_array(
    field: Field, version: int, flexible: bool, buffer: memoryview, position: int
) -> tuple[list[Any] | None, int]:
    start = position
    length, position = (read_compact_length if flexible else read_int32)(buffer, position)
    if length < 0:
        if field.is_nullable:
            return None, position
        raise UnexpectedNull("null in a field that is never null", position=start)
    # Every element takes at least a byte, so a length past the end is refused before any work.
    if length > len(buffer) - position:
        raise BufferUnderflow(
            f"{length} elements announced, {len(buffer) - position} bytes left",
            position=start,
        )
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
                # As Kafka's generated readers do: the announced size of a known tag is not used.
                values[known.name], position = _read_named(known, version, True, buffer, position)
    except DecodeError as error:
        error.within(field=None if error.field else "tagged fields")
        raise
    return position


# --- writing
# ---------------------------------------------------------------------------------------


def _write_struct(
    schema: tuple[Field, ...],
    version: int,
    flexible: bool,
    out: bytearray,
    values: Mapping[str, Any],
    where: str,
) -> None:
    unknown = set(values) - {field.name for field in schema}
    if unknown:
        raise EncodeError(f"{where} has no field {', '.join(sorted(unknown))}")
    for field in schema:
        path = f"{where}.{field.name}"
        if not field.is_in(version):
            if values.get(field.name, field.default) != field.default:
                raise EncodeError(f"{path} has no place in version {version}")
        elif field.tag is None:
            _write_field(field, version, flexible, out, _value_of(field, values, path), path)
    if flexible:
        _write_tagged_fields(schema, version, out, values, where)


def _value_of(field: Field, values: Mapping[str, Any], path: str) -> Any:
    if field.name in values:
        return values[field.name]
    if field.default is None and not field.is_nullable:
        raise EncodeError(f"{path} is missing")
    return field.default


def _write_field(
    field: Field, version: int, flexible: bool, out: bytearray, value: Any, path: str
) -> None:
    if not field.is_array:
        _write_single(field, version, flexible, out, value, path)
        return
    if value is None and not field.is_nullable:
        raise EncodeError(f"{path} is never null")
    length = -1 if value is None else len(value)
    if flexible:
        write_unsigned_varint(out, length + 1)
    else:
        write_int32(out, length)
    for index, element in enumerate(value or ()):
        _write_single(field, version, flexible, out, element, f"{path}[{index}]")


def _write_single(
    field: Field, version: int, flexible: bool, out: bytearray, value: Any, path: str
) -> None:
    if value is None and not field.is_nullable_single:
        raise EncodeError(f"{path} is never null")
    if field.type == "struct":
        if field.is_nullable_single:
            write_int8(out, -1 if value is None else 1)
        if value is not None:
            _write_struct(field.fields, version, flexible, out, value, path)
    elif field.type == "string":
        (write_compact_nullable_string if flexible else write_nullable_string)(out, value)
    elif field.type == "bytes":
        (write_compact_nullable_bytes if flexible else write_nullable_bytes)(out, value)
    else:
        _WRITERS[field.type](out, value)


def _write_tagged_fields(
    schema: tuple[Field, ...],
    version: int,
    out: bytearray,
    values: Mapping[str, Any],
    where: str,
) -> None:
    set_fields = [
        field
        for field in schema
        if field.tag is not None
        and field.is_in(version)
        and values.get(field.name, field.default) != field.default
    ]
    write_unsigned_varint(out, len(set_fields))
    for field in sorted(set_fields, key=lambda f: f.tag or 0):
        body = bytearray()
        _write_field(field, version, True, body, values[field.name], f"{where}.{field.name}")
        write_unsigned_varint(out, field.tag or 0)
        write_unsigned_varint(out, len(body))
        out += body


# --- JSON
# ------------------------------------------------------------------------------------------


def _struct_json(
    schema: tuple[Field, ...], version: int, values: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        field.name: _field_json(field, version, values[field.name])
        for field in schema
        if field.is_in(version) and (field.tag is None or values[field.name] != field.default)
    }


def _field_json(field: Field, version: int, value: Any) -> Any:
    if field.is_array and value is not None:
        return [_single_json(field, version, element) for element in value]
    return _single_json(field, version, value)


def _single_json(field: Field, version: int, value: Any) -> Any:
    if value is None:
        return None
    if field.type == "struct":
        return _struct_json(field.fields, version, value)
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    if isinstance(value, UUID):
        return uuid_text(value)
    return value
