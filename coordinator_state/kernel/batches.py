"""Where the batches of a record set are: the framing, as a compiled loop.

The table it fills is indexed [column, batch]. The route of a batch says who reads it: a batch of
magic 2 with a sane header goes to the loops, at once or after decompression, everything else to
`log_decoder`.
"""

from __future__ import annotations

from typing import Final

from coordinator_state.kernel.numbers import Bytes, Integers, compiled, inlined, int16, int32, int64
from coordinator_state.message_set import MESSAGE_OVERHEAD_BYTES
from coordinator_state.record_batch import (
    BATCH_HEADER_BYTES,
    COMPRESSION_MASK,
    LOG_OVERHEAD_BYTES,
    MAX_BASE_OFFSET,
)

POSITION: Final = 0
SIZE: Final = 1
ROUTE: Final = 2
BODY_START: Final = 3
BODY_END: Final = 4
ATTRIBUTES: Final = 5
PRODUCER_ID: Final = 6
PRODUCER_EPOCH: Final = 7
MOST_ROWS: Final = 8
"""How many rows the batch can give: as many as it says, and no more than its bytes can hold."""
BATCH_COLUMNS: Final = 9

ROUTE_PLAIN: Final = 0
ROUTE_COMPRESSED: Final = 1
ROUTE_DECOMPRESSED: Final = 2
"""Its checksum is verified, too."""
ROUTE_BROKEN: Final = 3
"""Decompression failed; `log_decoder` says why."""
ROUTE_READABLE: Final = 4

LEAST_RECORD_BYTES: Final = 7
"""A record without key, value and headers."""

_MAX_COMPRESSION_ID: Final = 4
_LEAST_LENGTH_0: Final = MESSAGE_OVERHEAD_BYTES[0]
_LEAST_LENGTH_1: Final = MESSAGE_OVERHEAD_BYTES[1]
_LEAST_LENGTH_2: Final = BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES


@compiled
def index_batches(
    buffer: Bytes,
    position: int,
    next_offset: int,
    from_offset: int,
    to_offset: int,
    max_bytes: int,
    table: Integers,
) -> tuple[int, int, int, int, bool]:
    """Fill the table with the batches from `position` on, as far as it and `max_bytes` go.

    Batches of magic 2 outside the offsets asked for are passed over.

    Returns:
        Batches in the table, new position, next offset, bytes of the batches asked for but for
        those of `ROUTE_READABLE`, and whether whole batches may follow.
    """
    count = 0
    bytes_read = 0
    start = position
    while count < table.shape[1] and position - start < max_bytes:
        size = _batch_size(buffer, position)
        if size == 0:
            return count, position, next_offset, bytes_read, False
        base_offset = int64(buffer, position)
        magic = buffer[position + 16]
        last_offset = base_offset if magic < 2 else max(base_offset, from_offset)
        route = ROUTE_READABLE
        if magic == 2 and _is_sane(buffer, position):
            last_offset = base_offset + int32(buffer, position + 23)
            route = _route(buffer, position)
        if last_offset >= from_offset:
            next_offset = min(last_offset, to_offset - 1) + 1
        if route == ROUTE_READABLE or (last_offset >= from_offset and base_offset < to_offset):
            _index_batch(buffer, position, size, route, table, count)
            count += 1
            if route != ROUTE_READABLE:
                bytes_read += size
        position += size
    return count, position, next_offset, bytes_read, True


@inlined
def _batch_size(buffer: Bytes, position: int) -> int:
    """0 where the batch is cut, and where its length is impossible."""
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
def _is_sane(buffer: Bytes, position: int) -> bool:
    """Whether the offsets that the header claims are taken, be the rest right or not."""
    base_offset = int64(buffer, position)
    return base_offset >= 0 and base_offset <= MAX_BASE_OFFSET and int32(buffer, position + 23) >= 0


@inlined
def _route(buffer: Bytes, position: int) -> int:
    compression = int16(buffer, position + 21) & COMPRESSION_MASK
    if compression > _MAX_COMPRESSION_ID:
        return ROUTE_READABLE
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
    if route != ROUTE_READABLE:
        table[ATTRIBUTES, index] = int16(buffer, position + 21)
        table[PRODUCER_ID, index] = int64(buffer, position + 43)
        table[PRODUCER_EPOCH, index] = int16(buffer, position + 51)
        records = int32(buffer, position + 57)
        most_records = (size - BATCH_HEADER_BYTES) // LEAST_RECORD_BYTES
        table[MOST_ROWS, index] += max(0, min(records, most_records))
