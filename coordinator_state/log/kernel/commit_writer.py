"""A compiled loop that writes offset commits as record batches: for millions of commits.

`record_batch_writer` is the general writer. Commits are a table, indexed [column, commit]. Their
keys, metadata and topic ids are encoded parts. Each part is stored once, and commits refer to it by
number. Part N is the bytes from `starts[N]` up to `starts[N + 1]`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from coordinator_state.log.kernel.checksum import crc32c
from coordinator_state.log.kernel.numbers import Bytes, Integers, compiled, copy_bytes, inlined
from coordinator_state.log.record_batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from coordinator_state.log.record_set import BATCH_HEADER_BYTES, CRC_START, LOG_OVERHEAD_BYTES

KEY: Final = 0
VERSION: Final = 1
"""The version of the value."""
COMMITTED_OFFSET: Final = 2
LEADER_EPOCH: Final = 3
METADATA: Final = 4
"""The part starts with the length of the metadata."""
TIMESTAMP: Final = 5
TAIL: Final = 6
"""The bytes after the timestamp in the value."""
COMMIT_COLUMNS: Final = 7
# KEY, METADATA and TAIL contain numbers of parts.

PRODUCER_ID: Final = 0
CONTROL_TYPE: Final = 1
TRANSACTION_COLUMNS: Final = 2

MARKER_BYTES: Final = BATCH_HEADER_BYTES + 17
"""The size of a control batch: its record has 16 bytes, and their length one byte."""
MOST_RECORD_OVERHEAD_BYTES: Final = 64
"""The maximum size of a record without its key, metadata and topic id."""
_CRC_POSITION: Final = CRC_START - 4


@compiled
def numbered_by_key(key_numbers: Integers, key_count: int) -> Integers:
    """Return for each commit its 0-based index among the commits of the same key."""
    seen = np.zeros(key_count, dtype=np.int64)
    nth = np.empty(len(key_numbers), dtype=np.int64)
    for commit, key in enumerate(key_numbers):
        nth[commit] = seen[key]
        seen[key] += 1
    return nth


@compiled
def write_commits(
    commits: Integers,
    parts: Bytes,
    starts: Integers,
    batch_records: int,
    base_offset: int,
    transactions: Integers,
    tables: Integers,
    out: Bytes,
) -> tuple[int, int]:
    """Write batches of `batch_records`; return the bytes written and the next record offset.

    `transactions` is indexed [column, batch]. It has one transaction per batch, or none if the
    commits are not transactional. Transactions have epoch 0; each batch is followed by its marker.
    """
    count = commits.shape[1]
    position = 0
    for batch in range(-(-count // batch_records)):
        first = batch * batch_records
        last = min(first + batch_records, count) - 1
        start = position
        position += BATCH_HEADER_BYTES
        for commit in range(first, last + 1):
            position = _write_record(commits, commit, first, parts, starts, out, position)
        producer_id = -1
        if transactions.shape[1]:
            producer_id = transactions[PRODUCER_ID, batch]
        _write_header(
            out,
            start,
            position,
            base_offset,
            last - first + 1,
            commits[TIMESTAMP, first],
            commits[TIMESTAMP, last],
            producer_id,
            0 if producer_id < 0 else TRANSACTIONAL_FLAG,
            tables,
        )
        base_offset += last - first + 1
        if producer_id >= 0:
            start = position
            position = _write_marker(out, start, transactions[CONTROL_TYPE, batch])
            _write_header(
                out,
                start,
                position,
                base_offset,
                1,
                commits[TIMESTAMP, last],
                commits[TIMESTAMP, last],
                producer_id,
                TRANSACTIONAL_FLAG | CONTROL_FLAG,
                tables,
            )
            base_offset += 1
    return position, base_offset


@inlined
def _write_record(
    commits: Integers,
    commit: int,
    first: int,
    parts: Bytes,
    starts: Integers,
    out: Bytes,
    position: int,
) -> int:
    """Write a commit as a record of the batch that starts with the commit `first`."""
    key = commits[KEY, commit]
    metadata = commits[METADATA, commit]
    tail = commits[TAIL, commit]
    timestamp_ms = commits[TIMESTAMP, commit]
    offset_delta = commit - first
    timestamp_delta = timestamp_ms - commits[TIMESTAMP, first]
    key_length = starts[key + 1] - starts[key]
    metadata_length = starts[metadata + 1] - starts[metadata]
    tail_length = starts[tail + 1] - starts[tail]
    # Version, offset, leader epoch, metadata with its length, timestamp.
    value_length = 2 + 8 + 4 + metadata_length + 8 + tail_length
    length = (
        1
        + _varint_size(timestamp_delta)
        + _varint_size(offset_delta)
        + _varint_size(key_length)
        + key_length
        + _varint_size(value_length)
        + value_length
        + 1
    )
    position = _write_varint(out, position, length)
    out[position] = 0
    position = _write_varint(out, position + 1, timestamp_delta)
    position = _write_varint(out, position, offset_delta)
    position = _write_varint(out, position, key_length)
    position = copy_bytes(parts, starts[key], key_length, out, position)
    position = _write_varint(out, position, value_length)
    position = _write_integer(out, position, commits[VERSION, commit], 2)
    position = _write_integer(out, position, commits[COMMITTED_OFFSET, commit], 8)
    position = _write_integer(out, position, commits[LEADER_EPOCH, commit], 4)
    position = copy_bytes(parts, starts[metadata], metadata_length, out, position)
    position = _write_integer(out, position, timestamp_ms, 8)
    position = copy_bytes(parts, starts[tail], tail_length, out, position)
    out[position] = 0
    return position + 1


@inlined
def _write_marker(out: Bytes, start: int, control_type: int) -> int:
    """Write the only record of a control batch: an EndTransactionMarker of version 0."""
    position = start + BATCH_HEADER_BYTES
    position = _write_varint(out, position, 16)
    # No attributes, both deltas 0.
    position = _write_integer(out, position, 0, 3)
    position = _write_varint(out, position, 4)
    position = _write_integer(out, position, control_type, 4)
    position = _write_varint(out, position, 6)
    position = _write_integer(out, position, 0, 6)
    out[position] = 0
    return position + 1


@inlined
def _write_header(
    out: Bytes,
    start: int,
    end: int,
    base_offset: int,
    records: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    producer_id: int,
    attributes: int,
    tables: Integers,
) -> None:
    position = _write_integer(out, start, base_offset, 8)
    position = _write_integer(out, position, end - start - LOG_OVERHEAD_BYTES, 4)
    position = _write_integer(out, position, 0, 4)
    out[position] = 2
    position = _write_integer(out, position + 1, 0, 4)
    position = _write_integer(out, position, attributes, 2)
    position = _write_integer(out, position, records - 1, 4)
    position = _write_integer(out, position, base_timestamp_ms, 8)
    position = _write_integer(out, position, max_timestamp_ms, 8)
    position = _write_integer(out, position, producer_id, 8)
    position = _write_integer(out, position, -1 if producer_id < 0 else 0, 2)
    # The base sequence, as coordinators write it; no reader uses it.
    position = _write_integer(out, position, -1 if attributes & CONTROL_FLAG else 0, 4)
    _write_integer(out, position, records, 4)
    checksum = crc32c(out, start + CRC_START, end, tables)
    _write_integer(out, start + _CRC_POSITION, checksum, 4)


@inlined
def _write_integer(out: Bytes, position: int, value: int, size: int) -> int:
    """Write a big-endian integer."""
    for index in range(size):
        out[np.uint64(position + index)] = value >> (8 * (size - 1 - index)) & 0xFF
    return position + size


@inlined
def _zigzag(value: int) -> int:
    return value << 1 ^ value >> 63


@inlined
def _varint_size(value: int) -> int:
    bits = _zigzag(value)
    size = 1
    while bits >= 0x80:
        bits >>= 7
        size += 1
    return size


@inlined
def _write_varint(out: Bytes, position: int, value: int) -> int:
    bits = _zigzag(value)
    while bits >= 0x80:
        out[np.uint64(position)] = bits & 0x7F | 0x80
        position += 1
        bits >>= 7
    out[np.uint64(position)] = bits
    return position + 1
