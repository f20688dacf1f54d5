"""Framing as a compiled loop: finds the batches of an undamaged record set.

It trusts headers as long as base offsets increase; checksums are verified later. If anything is
wrong, `record_set` finds the batches instead. The table is indexed [column, batch].

The route of a batch names its reader. The compiled loops read batches of magic 2 with a plausible
header, directly or after decompression. `log_decoder` reads all other batches.
"""

from __future__ import annotations

from typing import Final

from coordinator_state.log.kernel.numbers import (
    Bytes,
    Integers,
    compiled,
    inlined,
    int16,
    int32,
    int64,
)
from coordinator_state.log.message_set import MESSAGE_OVERHEAD_BYTES
from coordinator_state.log.record_batch import COMPRESSION_MASK
from coordinator_state.log.record_set import BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES, MAX_BASE_OFFSET

POSITION: Final = 0
SIZE: Final = 1
ROUTE: Final = 2
BODY_START: Final = 3
BODY_END: Final = 4
ATTRIBUTES: Final = 5
PRODUCER_ID: Final = 6
PRODUCER_EPOCH: Final = 7
MOST_ROWS: Final = 8
"""The maximum number of rows: the count in the header, limited by the size of the batch."""
BATCH_COLUMNS: Final = 9

ROUTE_PLAIN: Final = 0
ROUTE_COMPRESSED: Final = 1
ROUTE_DECOMPRESSED: Final = 2
"""Decompressed, and its checksum is verified."""
ROUTE_BROKEN: Final = 3
"""Decompression failed; `log_decoder` finds the reason."""
ROUTE_FALLBACK: Final = 4
"""`log_decoder` reads the batch."""
ROUTE_OUTSIDE: Final = 5
"""No record offset is in the requested range; only the checksum is verified."""

LEAST_RECORD_BYTES: Final = 7
"""A record without key, value and headers."""

Place = tuple[int, int, int, bool]
"""A position; base and last offset of the batch before it; whether a gap precedes that batch."""
NO_PLACE: Final = (-1, -1, -1, False)
"""A header is damaged."""

_MAX_COMPRESSION_ID: Final = 4
_LEAST_LENGTH_0: Final = MESSAGE_OVERHEAD_BYTES[0]
_LEAST_LENGTH_1: Final = MESSAGE_OVERHEAD_BYTES[1]
_LEAST_LENGTH_2: Final = BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES


@compiled
def index_batches(
    buffer: Bytes,
    place: Place,
    from_offset: int,
    to_offset: int,
    max_bytes: int,
    table: Integers,
) -> tuple[int, Place, int, bool]:
    """Fill the table with batches from a place on, until it is full or `max_bytes` are read.

    Returns:
        The number of batches in the table, the new place, the bytes of requested batches without
        those of `ROUTE_FALLBACK`, and whether requested batches may follow.
    """
    position, last_base_offset, last_offset, has_gap = place
    count = 0
    bytes_read = 0
    start = position
    while count < table.shape[1] and position - start < max_bytes:
        next_offset = max(last_offset + 1, from_offset)
        size = _batch_size(buffer, position)
        if size == 0 or next_offset >= to_offset:
            return count, (position, last_base_offset, last_offset, has_gap), bytes_read, False
        base_offset = int64(buffer, position)
        if base_offset <= last_offset or base_offset > MAX_BASE_OFFSET:
            return count, NO_PLACE, bytes_read, False
        has_gap = base_offset > (next_offset if last_offset < 0 else last_offset + 1)
        last_base_offset = last_offset = base_offset
        route = ROUTE_FALLBACK
        if buffer[position + 16] == 2:
            last_offset += int32(buffer, position + 23)
            if last_offset < base_offset:
                return count, NO_PLACE, bytes_read, False
            is_requested = last_offset >= from_offset and base_offset < to_offset
            route = _route(buffer, position) if is_requested else ROUTE_OUTSIDE
        _index_batch(buffer, position, size, route, table, count)
        count += 1
        position += size
        if route < ROUTE_FALLBACK:
            bytes_read += size
    return count, (position, last_base_offset, last_offset, has_gap), bytes_read, True


@inlined
def _batch_size(buffer: Bytes, position: int) -> int:
    """Return the size of a batch, 0 if it is incomplete or its length is impossible."""
    left = len(buffer) - position
    if left < LOG_OVERHEAD_BYTES:
        return 0
    length = int32(buffer, position + 8)
    if length < _LEAST_LENGTH_0 or length > left - LOG_OVERHEAD_BYTES:
        return 0
    magic = buffer[position + 16]
    if (magic == 2 and length < _LEAST_LENGTH_2) or (magic == 1 and length < _LEAST_LENGTH_1):
        return 0
    return length + LOG_OVERHEAD_BYTES


@inlined
def _route(buffer: Bytes, position: int) -> int:
    compression = int16(buffer, position + 21) & COMPRESSION_MASK
    if compression > _MAX_COMPRESSION_ID:
        return ROUTE_FALLBACK
    has_records = int32(buffer, position + 57) > 0
    return ROUTE_COMPRESSED if compression and has_records else ROUTE_PLAIN


@inlined
def _index_batch(
    buffer: Bytes, position: int, size: int, route: int, table: Integers, index: int
) -> None:
    table[POSITION, index] = position
    table[SIZE, index] = size
    table[ROUTE, index] = route
    table[BODY_START, index] = position + BATCH_HEADER_BYTES
    table[BODY_END, index] = position + size
    table[MOST_ROWS, index] = 1
    if route != ROUTE_FALLBACK:
        table[ATTRIBUTES, index] = int16(buffer, position + 21)
        table[PRODUCER_ID, index] = int64(buffer, position + 43)
        table[PRODUCER_EPOCH, index] = int16(buffer, position + 51)
        records = int32(buffer, position + 57)
        most_records = (size - BATCH_HEADER_BYTES) // LEAST_RECORD_BYTES
        table[MOST_ROWS, index] += max(0, min(records, most_records))
