"""The serde of coordinator records: bytes to fields and back, by the record types of a topic.

Trailing bytes after a key or a value are not an error, as in Kafka's own serde. The result has
their count.

Source: coordinator-common/src/main/java/org/apache/kafka/coordinator/common/runtime/
CoordinatorRecordSerde.java at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator_state.errors import (
    DecodeError,
    EncodeError,
    UnknownRecordType,
    UnsupportedVersion,
)
from coordinator_state.records.group_metadata_members import read_group_metadata
from coordinator_state.records.record_types import GROUP_METADATA_TYPE, RECORD_TYPES, RecordType
from coordinator_state.wire.primitives import read_int16, write_int16
from coordinator_state.wire.schema import Schema
from coordinator_state.wire.struct_reader import Fields, read_struct
from coordinator_state.wire.struct_writer import write_struct


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedKey:
    """A record's key: its type and fields by Kafka's names."""

    record_type: RecordType
    fields: Fields
    trailing_bytes: int

    @property
    def group_id(self) -> str:
        """The first field of the key: the group; of `__transaction_state` the transactional id."""
        first_field = self.record_type.key_fields[0].name
        group_id: str = self.fields[first_field]
        return group_id


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedValue:
    """A record's value: its version and all fields of the schema, with defaults if absent."""

    schema: Schema
    version: int
    fields: Fields
    trailing_bytes: int


def decode_key(
    raw: bytes | memoryview, record_types: Mapping[int, RecordType] = RECORD_TYPES
) -> DecodedKey:
    """Read a record key: int16 record type, then its fields.

    `record_types` are those of the topic, by default of `__consumer_offsets`.

    Raises:
        UnknownRecordType: no supported Kafka version writes this type.
        DecodeError: the bytes are not a key of that type.
    """
    buffer = memoryview(raw)
    try:
        type_id, position = read_int16(buffer, 0)
    except DecodeError as error:
        error.within(record_type="record key", field="type")
        raise
    record_type = record_types.get(type_id)
    if record_type is None:
        raise UnknownRecordType(type_id)
    try:
        fields, position = read_struct(record_type.key_fields, 0, False, buffer, position)
    except DecodeError as error:
        error.within(record_type=record_type.key_name)
        raise
    return DecodedKey(record_type=record_type, fields=fields, trailing_bytes=len(buffer) - position)


def decode_value(record_type: RecordType, raw: bytes | memoryview) -> DecodedValue:
    """Read a record value: int16 version, then its fields.

    Several GroupMetadata values may share the same member object.

    Raises:
        DecodeError: unsupported version, or bytes that are not a value of this version.
    """
    if record_type.id == GROUP_METADATA_TYPE:
        value = _decode_group_metadata(record_type.value, bytes(raw))
        if value is not None:
            return value
    try:
        return decode_versioned(record_type.value, raw)
    except DecodeError:
        early = _decode_early_access(record_type, raw)
        if early is None:
            raise
        return early


def _decode_group_metadata(schema: Schema, raw: bytes) -> DecodedValue | None:
    """Decode a valid value in a non-flexible version; return None for any other."""
    try:
        version, position = read_int16(memoryview(raw), 0)
    except DecodeError:
        return None
    if version < 0 or schema.is_flexible(version):
        return None
    fields = read_group_metadata(version, raw, position)
    if fields is None:
        return None
    return DecodedValue(schema=schema, version=version, fields=fields, trailing_bytes=0)


def _decode_early_access(record_type: RecordType, raw: bytes | memoryview) -> DecodedValue | None:
    """Decode a value in the layout of 4.0.0; return None if the bytes do not fit exactly."""
    if record_type.early_access_value is None:
        return None
    try:
        value = decode_versioned(record_type.early_access_value, raw)
    except DecodeError:
        return None
    return None if value.trailing_bytes else value


def decode_versioned(schema: Schema, raw: bytes | memoryview) -> DecodedValue:
    """Read an int16 version and then the message of that version.

    Raises:
        DecodeError: unsupported version, or bytes that are not a message of this version.
    """
    buffer = memoryview(raw)
    version, position = _read_version(schema, buffer)
    first, last = schema.versions
    if not first <= version <= last:
        raise UnsupportedVersion(
            f"unsupported version; known: {first} to {last}",
            position=0,
            record_type=schema.name,
            version=version,
            field="version",
        )
    return _decode_body(schema, version, buffer, position)


def _read_version(schema: Schema, buffer: memoryview) -> tuple[int, int]:
    try:
        return read_int16(buffer, 0)
    except DecodeError as error:
        error.within(record_type=schema.name, field="version")
        raise


def decode_appended(
    schema: Schema, raw: bytes | memoryview, newest_version: int | None = None
) -> DecodedValue:
    """Read an int16 version and a message whose versions only append fields.

    A version above `newest_version` (default: the schema's newest) is read as that version.

    Raises:
        DecodeError: a negative version, or bytes that are not this message.
    """
    buffer = memoryview(raw)
    version, position = _read_version(schema, buffer)
    if version < 0:
        raise UnsupportedVersion(
            "negative version", position=0, record_type=schema.name, version=version
        )
    newest = schema.versions[1] if newest_version is None else newest_version
    return _decode_body(schema, min(version, newest), buffer, position)


def _decode_body(schema: Schema, version: int, buffer: memoryview, position: int) -> DecodedValue:
    """Read the fields of a message in a version that has been checked already."""
    try:
        fields, position = read_struct(
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
    write_struct(record_type.key_fields, 0, False, out, fields, record_type.key_name)
    return bytes(out)


def encode_value(record_type: RecordType, version: int, fields: Mapping[str, Any]) -> bytes:
    """Write a record value in the given version.

    Raises:
        EncodeError: the version is unknown, or a field is missing, does not fit, or is set although
            the version does not have it.
    """
    return encode_versioned(record_type.value, version, fields)


def encode_versioned(schema: Schema, version: int, fields: Mapping[str, Any]) -> bytes:
    """Write an int16 version and then the message in that version."""
    first, last = schema.versions
    if not first <= version <= last:
        raise EncodeError(f"{schema.name} has versions {first} to {last}, not {version}")
    out = bytearray()
    write_int16(out, version)
    write_struct(schema.fields, version, schema.is_flexible(version), out, fields, schema.name)
    return bytes(out)
