"""Compiled loops that decode OffsetCommits, GroupMetadata and markers to rows of integers.

Rows are indexed [column, row]. Strings and ids are not copied: a row has their position and length,
because most rows are superseded. For every other record, and for one that is not well-formed, the
row has the positions of its key and value, and `log_decoder` reads it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from coordinator_state.log.kernel.batches import (
    ATTRIBUTES,
    BODY_END,
    LEAST_RECORD_BYTES,
    POSITION,
)
from coordinator_state.log.kernel.group_metadata import is_group_metadata
from coordinator_state.log.kernel.numbers import (
    Bytes,
    Integers,
    compiled,
    inlined,
    int16,
    int32,
    int64,
    uint8,
    unsigned_varint,
    varint,
    varlong,
)
from coordinator_state.log.kernel.utf8 import is_utf8
from coordinator_state.log.record_batch import CONTROL_FLAG, LOG_APPEND_TIME_FLAG
from coordinator_state.records.record_types import GROUP_METADATA_TYPE

KIND: Final = 0
OFFSET: Final = 1
TIMESTAMP: Final = 2
BATCH: Final = 3
RECORD_TYPE: Final = 4
GROUP_POSITION: Final = 5
GROUP_LENGTH: Final = 6
TOPIC_POSITION: Final = 7
TOPIC_LENGTH: Final = 8
PARTITION: Final = 9
VERSION: Final = 10
COMMITTED_OFFSET: Final = 11
LEADER_EPOCH: Final = 12
METADATA_POSITION: Final = 13
METADATA_LENGTH: Final = 14
COMMIT_TIMESTAMP: Final = 15
EXPIRE_TIMESTAMP: Final = 16
TOPIC_ID_POSITION: Final = 17
ROW_COLUMNS: Final = 18
# A marker has its control type in the column of the record type. A record for `log_decoder` has its
# key and value in the columns of the group and the metadata; a length below 0 is null.
CONTROL_TYPE: Final = RECORD_TYPE
KEY_POSITION: Final = GROUP_POSITION
KEY_LENGTH: Final = GROUP_LENGTH
VALUE_POSITION: Final = METADATA_POSITION
VALUE_LENGTH: Final = METADATA_LENGTH
# A GroupMetadata record has its group, its value, and its whole key in the columns of the topic.
RAW_KEY_POSITION: Final = TOPIC_POSITION
RAW_KEY_LENGTH: Final = TOPIC_LENGTH

KIND_COMMIT: Final = 0
KIND_MARKER: Final = 1
KIND_GROUP_METADATA: Final = 2
KIND_FALLBACK: Final = 3

TOMBSTONE_VERSION: Final = -1
NO_POSITION: Final = -1

_MAX_STRING_BYTES: Final = 0x7FFF
_UUID_BYTES: Final = 16
_LEAST_KEY_BYTES: Final = 10
_LEAST_GROUP_KEY_BYTES: Final = 4
_LEAST_VALUE_BYTES: Final = 20


@compiled
def decode_rows(
    arena: Bytes, table: Integers, positions: Integers, batches: Integers, rows: Integers
) -> None:
    """Decode the well-framed records at `positions`; `batches` has their batch numbers."""
    for row in range(len(positions)):
        place = np.uint64(row)
        batch = batches[place]
        header = table[POSITION, batch]
        attributes = table[ATTRIBUTES, batch]
        end = table[BODY_END, batch]
        decode_record(arena, positions[place], end, attributes & CONTROL_FLAG, rows, place)
        rows[OFFSET, place] += int64(arena, header)
        rows[TIMESTAMP, place] = timestamp_of(arena, header, attributes, rows[TIMESTAMP, place])
        rows[BATCH, place] = batch


@inlined
def timestamp_of(arena: Bytes, header: int, attributes: int, delta_ms: int) -> int:
    """Return the timestamp of a record of a batch: that of its append, or else of its creation."""
    if attributes & LOG_APPEND_TIME_FLAG:
        return int64(arena, header + 35)
    return int64(arena, header + 27) + delta_ms


@inlined
def decode_record(
    arena: Bytes, position: int, end: int, is_control: int, rows: Integers, row: np.uint64
) -> int:
    """Frame and decode a record; return its end, or -1 if a length is wrong or it has headers.

    Offset and timestamp are deltas, as in the record. The index of `rows` is unsigned for the same
    reason as in `numbers.uint8`.
    """
    length, position = varint(arena, position, end)
    if position < 0 or length < LEAST_RECORD_BYTES - 1 or length > end - position:
        return -1
    end = position + length
    rows[TIMESTAMP, row], position = varlong(arena, position + 1, end)
    if position < 0:
        return -1
    rows[OFFSET, row], position = varint(arena, position, end)
    if position < 0:
        return -1
    key_length, key = varint(arena, position, end)
    position = _end_of_bytes(key, key_length, end)
    if position < 0:
        return -1
    value_length, value = varint(arena, position, end)
    position = _end_of_bytes(value, value_length, end)
    if position != end - 1 or uint8(arena, position) != 0:
        return -1
    if is_control:
        is_decoded = _decode_control_key(arena, key, key_length, rows, row)
    elif _is_group_metadata_key(arena, key, key_length):
        is_decoded = value_length < 0 or is_group_metadata(arena, value, value + value_length)
        _set_group_metadata(arena, key, rows, row)
        rows[RAW_KEY_LENGTH, row] = key_length
        rows[VALUE_POSITION, row] = value
        rows[VALUE_LENGTH, row] = value_length
    else:
        is_decoded = _decode_key(arena, key, key_length, rows, row) and _decode_value(
            arena, value, value_length, rows, row
        )
    if not is_decoded:
        rows[KIND, row] = KIND_FALLBACK
        rows[KEY_POSITION, row] = key
        rows[KEY_LENGTH, row] = key_length
        rows[VALUE_POSITION, row] = value
        rows[VALUE_LENGTH, row] = value_length
    return end


@inlined
def _end_of_bytes(position: int, length: int, end: int) -> int:
    """Return the position after the bytes of a key or value, which may be null; -1 if too long."""
    if position < 0 or length > end - position:
        return -1
    return position if length < 0 else position + length


@inlined
def _decode_control_key(
    arena: Bytes, key: int, length: int, rows: Integers, row: np.uint64
) -> bool:
    """Decode int16 version, int16 control type."""
    if length < 4 or int16(arena, key) < 0:
        return False
    rows[KIND, row] = KIND_MARKER
    rows[CONTROL_TYPE, row] = int16(arena, key + 2)
    rows[GROUP_POSITION, row] = 0
    rows[GROUP_LENGTH, row] = 0
    rows[TOPIC_POSITION, row] = 0
    rows[TOPIC_LENGTH, row] = 0
    _clear_value(rows, row)
    return True


@inlined
def _is_group_metadata_key(arena: Bytes, key: int, length: int) -> bool:
    """Whether a key is int16 record type 2 and the group as a string."""
    if length < _LEAST_GROUP_KEY_BYTES or int16(arena, key) != GROUP_METADATA_TYPE:
        return False
    group_length = int16(arena, key + 2)
    if group_length < 0 or group_length > length - _LEAST_GROUP_KEY_BYTES:
        return False
    return is_utf8(arena, key + _LEAST_GROUP_KEY_BYTES, group_length)


@inlined
def _set_group_metadata(arena: Bytes, key: int, rows: Integers, row: np.uint64) -> None:
    _clear_value(rows, row)
    rows[KIND, row] = KIND_GROUP_METADATA
    rows[RECORD_TYPE, row] = GROUP_METADATA_TYPE
    rows[GROUP_POSITION, row] = key + _LEAST_GROUP_KEY_BYTES
    rows[GROUP_LENGTH, row] = int16(arena, key + 2)
    rows[RAW_KEY_POSITION, row] = key


@inlined
def _decode_key(arena: Bytes, key: int, length: int, rows: Integers, row: np.uint64) -> bool:
    """Decode int16 record type 0 or 1, group and topic as strings, int32 partition."""
    if length < _LEAST_KEY_BYTES:
        return False
    record_type = int16(arena, key)
    group_length = int16(arena, key + 2)
    if record_type < 0 or record_type > 1:
        return False
    if group_length < 0 or group_length > length - _LEAST_KEY_BYTES:
        return False
    group = key + 4
    topic = group + group_length + 2
    topic_length = int16(arena, topic - 2)
    if topic_length < 0 or topic_length > length - _LEAST_KEY_BYTES - group_length:
        return False
    if not is_utf8(arena, group, group_length) or not is_utf8(arena, topic, topic_length):
        return False
    rows[KIND, row] = KIND_COMMIT
    rows[RECORD_TYPE, row] = record_type
    rows[GROUP_POSITION, row] = group
    rows[GROUP_LENGTH, row] = group_length
    rows[TOPIC_POSITION, row] = topic
    rows[TOPIC_LENGTH, row] = topic_length
    rows[PARTITION, row] = int32(arena, topic + topic_length)
    return True


@inlined
def _clear_value(rows: Integers, row: np.uint64) -> None:
    """Set the columns of the value as for a tombstone."""
    rows[VERSION, row] = TOMBSTONE_VERSION
    rows[LEADER_EPOCH, row] = -1
    rows[METADATA_POSITION, row] = 0
    rows[METADATA_LENGTH, row] = 0
    rows[EXPIRE_TIMESTAMP, row] = -1
    rows[TOPIC_ID_POSITION, row] = NO_POSITION


@inlined
def _decode_value(arena: Bytes, value: int, length: int, rows: Integers, row: np.uint64) -> bool:
    """Decode int16 version, int64 offset, v3+ int32 leader epoch, metadata, int64 timestamp."""
    _clear_value(rows, row)
    if length < 0:
        return True
    version = int16(arena, value) if length >= _LEAST_VALUE_BYTES else -1
    if version < 0 or version > 4:
        return False
    end = value + length
    position = value + 10
    if version >= 3:
        rows[LEADER_EPOCH, row] = int32(arena, position)
        position += 4
    if version == 4:
        metadata_length, position = unsigned_varint(arena, position, end)
        metadata_length -= 1
    else:
        metadata_length = int16(arena, position)
        position += 2
    if position < 0 or metadata_length < 0 or metadata_length > _MAX_STRING_BYTES:
        return False
    if metadata_length + 8 > end - position or not is_utf8(arena, position, metadata_length):
        return False
    rows[VERSION, row] = version
    rows[COMMITTED_OFFSET, row] = int64(arena, value + 2)
    rows[METADATA_POSITION, row] = position
    rows[METADATA_LENGTH, row] = metadata_length
    rows[COMMIT_TIMESTAMP, row] = int64(arena, position + metadata_length)
    return _decode_value_end(arena, position + metadata_length + 8, end, version, rows, row)


@inlined
def _decode_value_end(
    arena: Bytes, position: int, end: int, version: int, rows: Integers, row: np.uint64
) -> bool:
    """Decode in v1 the int64 expire timestamp, in v4 the tagged fields; tag 0 is the topic id."""
    if version == 1:
        if end - position < 8:
            return False
        rows[EXPIRE_TIMESTAMP, row] = int64(arena, position)
    if version < 4:
        return True
    tags, position = unsigned_varint(arena, position, end)
    if position < 0 or tags > end - position:
        return False
    for _ in range(tags):
        tag, position = unsigned_varint(arena, position, end)
        if position < 0:
            return False
        size, position = unsigned_varint(arena, position, end)
        if position < 0 or size > end - position or (tag == 0 and size != _UUID_BYTES):
            return False
        if tag == 0:
            rows[TOPIC_ID_POSITION, row] = position
        position += size
    return True
