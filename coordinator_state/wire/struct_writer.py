"""The writer of all message schemas: fields, with Kafka's names, to bytes.

It behaves as the `write` methods that Kafka generates.

Source: generator/src/main/java/org/apache/kafka/message/MessageDataGenerator.java at 4.2.0;
KIP-482.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coordinator_state.errors import EncodeError
from coordinator_state.wire.primitives import (
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
from coordinator_state.wire.schema import Field

_WRITERS: dict[str, Callable[[bytearray, Any], None]] = {
    "int8": write_int8,
    "int16": write_int16,
    "uint16": write_uint16,
    "int32": write_int32,
    "int64": write_int64,
    "uuid": lambda out, value: out.extend(value.bytes),
}


def write_struct(
    schema: tuple[Field, ...],
    version: int,
    flexible: bool,
    out: bytearray,
    values: Mapping[str, Any],
    where: str,
) -> None:
    """Append one struct in the given version; `where` is its name in errors.

    Raises:
        EncodeError: a field is unknown or missing, does not fit, or is set although the version
            does not have it.
    """
    unknown = set(values) - {field.name for field in schema}
    if unknown:
        raise EncodeError(f"{where} has no field {', '.join(sorted(unknown))}")
    for field in schema:
        path = f"{where}.{field.name}"
        if not field.is_in(version):
            if values.get(field.name, field.default) != field.default:
                raise EncodeError(f"{path} does not exist in version {version}")
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
        raise EncodeError(f"{path} is not nullable")
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
        raise EncodeError(f"{path} is not nullable")
    if field.type == "struct":
        if field.is_nullable_single and field.tag is not None:
            write_unsigned_varint(out, 0 if value is None else 1)
        elif field.is_nullable_single:
            write_int8(out, -1 if value is None else 1)
        if value is not None:
            write_struct(field.fields, version, flexible, out, value, path)
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
