"""One record inside a batch of magic 2.

    length varint, attributes int8, timestamp_delta varlong, offset_delta varint,
    key and value with a varint length each, header count varint, headers

The length counts all bytes after itself. Attributes are unused.

Source: clients/src/main/java/org/apache/kafka/common/record/DefaultRecord.java at 4.2.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coordinator_state.errors import InvalidLength
from coordinator_state.wire.primitives import (
    read_exactly,
    read_int8,
    read_int16,
    read_varint,
    read_varlong,
    write_int8,
    write_varint,
)

NO_TIMESTAMP: Final = -1
"""`RecordBatch.NO_TIMESTAMP`: messages of magic 0 have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record or older message, with absolute values. Headers are checked and not kept."""

    record_offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def read_record(
    view: memoryview, position: int, *, base_offset: int, base_timestamp_ms: int
) -> tuple[Record, int]:
    """Read one record; its fields must have exactly the length of the record.

    Raises:
        DecodeError: the record is incomplete, or its lengths contradict one another.
    """
    length, start = read_varint(view, position)
    end = start + length
    if length < 0 or end > len(view):
        raise InvalidLength(f"length {length}, {len(view) - start} bytes left", position=position)
    inside = view[:end]
    _attributes, position = read_int8(inside, start)
    timestamp_delta, position = read_varlong(inside, position)
    offset_delta, position = read_varint(inside, position)
    key, position = _read_varint_bytes(inside, position)
    value, position = _read_varint_bytes(inside, position)
    position = _skip_headers(inside, position)
    if position != end:
        raise InvalidLength(f"length {length}, {position - start} bytes used", position=start)
    record = Record(
        record_offset=base_offset + offset_delta,
        timestamp_ms=_as_int64(base_timestamp_ms + timestamp_delta),
        key=key,
        value=value,
    )
    return record, end


def read_control_key(key: bytes) -> tuple[int, int]:
    """Read the version and the control type, both int16, of a control record's key.

    Kafka refuses a negative version and reads all others alike. The caller checks for a negative
    version.

        >>> read_control_key(bytes.fromhex("00000001"))
        (0, 1)

    Raises:
        DecodeError: the key is incomplete.

    Source: clients/src/main/java/org/apache/kafka/common/record/ControlRecordType.java
    (`parseTypeId`) at 4.2.0.
    """
    buffer = memoryview(key)
    version, position = read_int16(buffer, 0)
    control_type, _ = read_int16(buffer, position)
    return version, control_type


def write_record(
    out: bytearray,
    *,
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
) -> None:
    """Append one record without headers."""
    body = bytearray()
    write_int8(body, 0)
    write_varint(body, _as_int64(timestamp_delta))
    write_varint(body, offset_delta)
    for part in (key, value):
        write_varint(body, -1 if part is None else len(part))
        body += part or b""
    write_varint(body, 0)
    write_varint(out, len(body))
    out += body


def _read_varint_bytes(view: memoryview, position: int) -> tuple[bytes | None, int]:
    """Read bytes; any negative length is null, as in `Utils.readBytes`."""
    length, position = read_varint(view, position)
    return (None, position) if length < 0 else read_exactly(view, position, length)


def _skip_headers(view: memoryview, position: int) -> int:
    count, position = read_varint(view, position)
    if count < 0:
        raise InvalidLength(f"negative header count {count}", position=position)
    for _ in range(count):
        key, position = _read_varint_bytes(view, position)
        if key is None:
            raise InvalidLength("record header without a key", position=position)
        _value, position = _read_varint_bytes(view, position)
    return position


def _as_int64(value: int) -> int:
    """Wrap to 64 bits, as Java's long addition does."""
    return (value + 2**63) % 2**64 - 2**63
