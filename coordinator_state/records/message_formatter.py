"""Records as JSON, as Kafka's tools print them.

Source: tools/src/main/java/org/apache/kafka/tools/consumer/CoordinatorRecordMessageFormatter.java
and the generated JSON converters at 4.2.0.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from coordinator_state.records.serde import DecodedKey, DecodedValue
from coordinator_state.wire.primitives import uuid_text
from coordinator_state.wire.schema import Field, FieldType


def formatter_json(key: DecodedKey, value: DecodedValue | None) -> dict[str, Any]:
    """Convert a record as Kafka's message formatters do; a tombstone has the value None."""
    return {
        "key": {
            "type": key.record_type.id,
            "data": _struct_json(key.record_type.key_fields, 0, key.fields),
        },
        "value": None if value is None else value_json(value),
    }


def value_json(value: DecodedValue) -> dict[str, Any]:
    """Convert a value as Kafka's generated JSON converters do.

    Has only the fields of the value's version, in schema order. Bytes are base64, uuids url-safe
    base64. Tagged fields with their default are omitted.
    """
    return {
        "version": value.version,
        "data": fields_json(value),
    }


def fields_json(value: DecodedValue) -> dict[str, Any]:
    """Convert only the fields of a value."""
    return _struct_json(value.schema.fields, value.version, value.fields)


def key_json(key: DecodedKey) -> dict[str, Any]:
    """Convert the fields of a key as Kafka's JSON converters do."""
    return _struct_json(key.record_type.key_fields, 0, key.fields)


def _struct_json(
    schema: tuple[Field, ...], version: int, values: Mapping[str, Any]
) -> dict[str, Any]:
    converted = {}
    for field in schema:
        value = values[field.name]
        if field.is_in(version) and (field.tag is None or value != field.default):
            convert = _CONVERTERS.get(field.type)
            if convert is None or value is None:
                converted[field.name] = value
            elif field.is_array:
                converted[field.name] = [convert(field, version, element) for element in value]
            else:
                converted[field.name] = convert(field, version, value)
    return converted


_CONVERTERS: Final[Mapping[FieldType, Callable[[Field, int, Any], Any]]] = {
    "bytes": lambda _field, _version, value: b64encode(value).decode("ascii"),
    "struct": lambda field, version, value: _struct_json(field.fields, version, value),
    "uuid": lambda _field, _version, value: uuid_text(value),
}
"""JSON has all other values unchanged."""
