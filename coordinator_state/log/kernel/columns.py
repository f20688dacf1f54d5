"""Rows of integers to Arrow columns of the `coordinator_log` source."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from coordinator_state.log.kernel import batches, rows
from coordinator_state.log.kernel.numbers import (
    Bytes,
    Integers,
    Mask,
    compiled,
    copy_bytes,
)
from coordinator_state.log.log_decoder import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from coordinator_state.log.log_rows import (
    LOG_ROW_SCHEMA,
    ROW_KIND_MARKER,
    ROW_KIND_OFFSET,
    ROW_KIND_RECORD,
)
from coordinator_state.log.record import NO_TIMESTAMP
from coordinator_state.log.record_batch import TRANSACTIONAL_FLAG
from coordinator_state.records.record_types import NO_LEADER_EPOCH

_ROW_KINDS: Final = pa.array([ROW_KIND_OFFSET, ROW_KIND_MARKER, ROW_KIND_RECORD])
"""The index is the kind in the integer rows."""
_UUID_BYTES: Final = 16
_UUID_TEXT_BYTES: Final = 22


def arrow_rows(arena: Bytes, table: Integers, of: Integers, log_partition: int) -> pa.RecordBatch:
    """Build Arrow rows of commits, GroupMetadata and markers, with the bytes that they point at.

    All data is copied, so no Arrow column keeps the integers or the bytes in memory.
    """
    kind = of[rows.KIND]
    is_commit = kind == rows.KIND_COMMIT
    is_group = kind == rows.KIND_GROUP_METADATA
    is_record = is_commit | is_group
    has_value = is_commit & (of[rows.VERSION] != rows.TOMBSTONE_VERSION)
    has_group_value = is_group & (of[rows.VALUE_LENGTH] >= 0)
    leader_epoch = of[rows.LEADER_EPOCH]
    commit_timestamp = np.clip(of[rows.COMMIT_TIMESTAMP], MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS)
    batch = of[rows.BATCH]
    attributes = table[batches.ATTRIBUTES, batch]
    group = (of[rows.GROUP_POSITION], of[rows.GROUP_LENGTH])
    topic = (of[rows.TOPIC_POSITION], of[rows.TOPIC_LENGTH])
    metadata = (of[rows.METADATA_POSITION], of[rows.METADATA_LENGTH])
    columns = {
        "row_kind": _ROW_KINDS.take(pa.array(kind)),
        "log_partition": _integers(np.full_like(kind, log_partition), pa.int32()),
        "record_offset": _integers(of[rows.OFFSET], pa.int64()),
        "record_timestamp_ms": _timestamps(of[rows.TIMESTAMP]),
        "producer_id": _integers(table[batches.PRODUCER_ID, batch], pa.int64()),
        "producer_epoch": _integers(table[batches.PRODUCER_EPOCH, batch], pa.int32()),
        "is_transactional": pa.array(attributes & TRANSACTIONAL_FLAG != 0),
        "control_type": _integers(of[rows.CONTROL_TYPE], pa.int32(), ~is_record),
        "record_type": _integers(of[rows.RECORD_TYPE], pa.int32(), is_record),
        "value_version": _integers(of[rows.VERSION], pa.int32(), has_value),
        "is_tombstone": pa.array(~has_value & ~has_group_value, mask=~is_record),
        "group_id": _strings(arena, *group, is_record),
        "topic": _strings(arena, *topic, is_commit),
        "partition": _integers(of[rows.PARTITION], pa.int32(), is_commit),
        "committed_offset": _integers(of[rows.COMMITTED_OFFSET], pa.int64(), has_value),
        "leader_epoch": _integers(leader_epoch, pa.int32(), leader_epoch != NO_LEADER_EPOCH),
        "metadata": _strings(arena, *metadata, has_value),
        "commit_timestamp_ms": _integers(commit_timestamp, pa.int64(), has_value),
        "expire_timestamp_ms": _timestamps(of[rows.EXPIRE_TIMESTAMP]),
        "topic_id": _uuids(arena, of[rows.TOPIC_ID_POSITION]),
        "raw_key": _binary(arena, *topic, is_group),
        "raw_value": _binary(arena, *metadata, has_group_value),
    }
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(len(kind), field.type)
        for field in LOG_ROW_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=LOG_ROW_SCHEMA)


@compiled
def gather_strings(data: Bytes, positions: Integers, lengths: Integers, out: Bytes) -> None:
    """Copy pieces of the data one after the other."""
    target = 0
    for row in range(len(positions)):
        target = copy_bytes(data, positions[row], lengths[row], out, target)


def _integers(values: Integers, arrow_type: pa.DataType, is_valid: Mask | None = None) -> pa.Array:
    # Not to_pandas_dtype: with some releases of pyarrow it imports pandas.
    copied = values.astype(str(arrow_type))
    return pa.array(copied, type=arrow_type, mask=None if is_valid is None else ~is_valid)


def _timestamps(values: Integers) -> pa.Array:
    clipped = np.clip(values, MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS)
    return _integers(clipped, pa.int64(), values != NO_TIMESTAMP)


def _strings(arena: Bytes, positions: Integers, lengths: Integers, is_valid: Mask) -> pa.Array:
    lengths = np.where(is_valid, lengths, 0)
    offsets = _string_offsets(lengths)
    data = np.empty(offsets[-1], dtype=np.uint8)
    gather_strings(arena, positions, lengths, data)
    return _string_array(offsets, data, is_valid)


def _binary(arena: Bytes, positions: Integers, lengths: Integers, is_valid: Mask) -> pa.Array:
    if not is_valid.any():
        return pa.nulls(len(is_valid), pa.binary())
    return _strings(arena, positions, lengths, is_valid).view(pa.binary())


def _uuids(arena: Bytes, positions: Integers) -> pa.Array:
    """Build uuid texts as `primitives.uuid_text` does; null if absent or zero."""
    is_valid = positions != rows.NO_POSITION
    places = positions[is_valid]
    # Base64 of all ids at once: with two more bytes each, the digits of an id are on their own.
    ids = np.zeros((len(places), _UUID_BYTES + 2), dtype=np.uint8)
    raw = np.empty(len(places) * _UUID_BYTES, dtype=np.uint8)
    gather_strings(arena, places, np.full_like(places, _UUID_BYTES), raw)
    ids[:, :_UUID_BYTES] = raw.reshape(-1, _UUID_BYTES)
    is_set = ids.any(axis=1)
    is_valid[is_valid] = is_set
    digits = np.frombuffer(urlsafe_b64encode(ids[is_set].tobytes()), dtype=np.uint8)
    texts = digits.reshape(-1, _UUID_TEXT_BYTES + 2)[:, :_UUID_TEXT_BYTES]
    offsets = _string_offsets(np.where(is_valid, _UUID_TEXT_BYTES, 0))
    return _string_array(offsets, np.ascontiguousarray(texts), is_valid)


def _string_offsets(lengths: Integers) -> npt.NDArray[np.int32]:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _string_array(
    offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8], is_valid: Mask
) -> pa.Array:
    validity = pa.py_buffer(np.packbits(is_valid, bitorder="little"))
    return pa.StringArray.from_buffers(
        len(is_valid), pa.py_buffer(offsets), pa.py_buffer(data), validity
    )
