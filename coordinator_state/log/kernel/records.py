"""The index of records in indexed batches: only the columns that compaction needs.

Most records of a log are superseded. For those the index needs only the position of the key and the
committed offset, and a check that they are well formed. `rows` decodes the records that are kept.

The index is [column, record]. `log_decoder` reads records that are neither a well-formed
OffsetCommit or GroupMetadata nor a marker; the index has their position. It also reads batches with
any error; such a batch counts as one record here.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from coordinator_state.log.kernel.batches import (
    ATTRIBUTES,
    BODY_END,
    BODY_START,
    POSITION,
    PRODUCER_ID,
    ROUTE,
    ROUTE_DECOMPRESSED,
    ROUTE_OUTSIDE,
    ROUTE_PLAIN,
)
from coordinator_state.log.kernel.checksum import crc32c
from coordinator_state.log.kernel.keys import (
    KIND_GROUP_RECORD,
    KIND_OTHER,
    KIND_OTHER_OFFSET,
    KIND_PLAIN_COMMIT,
    STRING_LENGTH_BYTES,
)
from coordinator_state.log.kernel.numbers import Bytes, Integers, compiled, inlined, int32, int64
from coordinator_state.log.kernel.rows import (
    COMMITTED_OFFSET,
    GROUP_POSITION,
    KEY_POSITION,
    KIND,
    KIND_COMMIT,
    KIND_GROUP_METADATA,
    KIND_MARKER,
    OFFSET,
    TIMESTAMP,
    TOMBSTONE_VERSION,
    TOPIC_LENGTH,
    TOPIC_POSITION,
    VERSION,
    decode_record,
    timestamp_of,
)
from coordinator_state.log.record_batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from coordinator_state.log.record_set import CRC_START
from coordinator_state.records.record_types import NO_PRODUCER_ID

RECORD_KIND: Final = 0
RECORD_BATCH: Final = 1
RECORD_POSITION: Final = 2
RECORD_KEY_POSITION: Final = 3
"""The position of the key after its record type."""
RECORD_KEY_LENGTH: Final = 4
"""The length of group, topic and partition, without trailing bytes of the key."""
RECORD_COMMITTED_OFFSET: Final = 5
RECORD_TIMESTAMP: Final = 6
RECORD_COLUMNS: Final = 7

# The kinds of `keys`, and two more. Markers and GroupMetadata records have KIND_OTHER.
KIND_FALLBACK_RECORD: Final = KIND_GROUP_RECORD + 1
KIND_FALLBACK_BATCH: Final = KIND_GROUP_RECORD + 2

_TYPE_BYTES: Final = 2
_PARTITION_BYTES: Final = 4


@compiled
def index_records(
    arena: Bytes,
    crc_tables: Integers,
    from_offset: int,
    to_offset: int,
    table: Integers,
    first: int,
    last: int,
    records: Integers,
    scratch: Integers,
) -> int:
    """Fill `records` from the batches from `first` up to, not including, `last`.

    The positions of the batches refer to `arena`; `scratch` is one row of `rows`.

    Returns:
        The number of records, at most the sum of the batches' `MOST_ROWS`.
    """
    count = 0
    for index in range(first, last):
        after = -1
        route = table[ROUTE, index]
        if route == ROUTE_OUTSIDE and _has_right_checksum(arena, table, index, crc_tables):
            continue
        if route == ROUTE_DECOMPRESSED or (
            route == ROUTE_PLAIN and _has_right_checksum(arena, table, index, crc_tables)
        ):
            after = _index_batch(
                arena, from_offset, to_offset, table, index, records, count, scratch
            )
        if after < 0:
            records[RECORD_KIND, count] = KIND_FALLBACK_BATCH
            records[RECORD_BATCH, count] = index
            after = count + 1
        count = after
    return count


@inlined
def _has_right_checksum(arena: Bytes, table: Integers, index: int, crc_tables: Integers) -> bool:
    header = table[POSITION, index]
    actual = crc32c(arena, header + CRC_START, table[BODY_END, index], crc_tables)
    return actual == int32(arena, header + 17) & 0xFFFFFFFF


@inlined
def _index_batch(
    arena: Bytes,
    from_offset: int,
    to_offset: int,
    table: Integers,
    index: int,
    records: Integers,
    count: int,
    scratch: Integers,
) -> int:
    """Add the records of a batch; return the new count, or -1 if the batch has an error."""
    header = table[POSITION, index]
    position = table[BODY_START, index]
    end = table[BODY_END, index]
    attributes = table[ATTRIBUTES, index]
    base_offset = int64(arena, header)
    in_batch = int32(arena, header + 57)
    if in_batch < 0:
        return -1
    is_exempt = table[PRODUCER_ID, index] != NO_PRODUCER_ID or attributes & TRANSACTIONAL_FLAG != 0
    for _ in range(in_batch):
        after = decode_record(
            arena, position, end, attributes & CONTROL_FLAG, scratch, np.uint64(0)
        )
        if after < 0:
            return -1
        if from_offset <= base_offset + scratch[OFFSET, 0] < to_offset:
            place = np.uint64(count)
            records[RECORD_BATCH, place] = index
            records[RECORD_POSITION, place] = position
            timestamp_ms = timestamp_of(arena, header, attributes, scratch[TIMESTAMP, 0])
            records[RECORD_TIMESTAMP, place] = timestamp_ms
            _index_record(records, place, scratch, is_exempt)
            count += 1
        position = after
    return count if position == end else -1


@inlined
def _index_record(records: Integers, place: np.uint64, row: Integers, is_exempt: bool) -> None:
    kind = row[KIND, 0]
    if kind == KIND_COMMIT:
        is_plain = not is_exempt and row[VERSION, 0] != TOMBSTONE_VERSION
        key = row[GROUP_POSITION, 0] - STRING_LENGTH_BYTES
        key_end = row[TOPIC_POSITION, 0] + row[TOPIC_LENGTH, 0] + _PARTITION_BYTES
        records[RECORD_KIND, place] = KIND_PLAIN_COMMIT if is_plain else KIND_OTHER_OFFSET
        records[RECORD_KEY_POSITION, place] = key
        records[RECORD_KEY_LENGTH, place] = key_end - key
        records[RECORD_COMMITTED_OFFSET, place] = row[COMMITTED_OFFSET, 0]
    elif kind in (KIND_MARKER, KIND_GROUP_METADATA):
        records[RECORD_KIND, place] = KIND_OTHER
    else:
        records[RECORD_KIND, place] = KIND_FALLBACK_RECORD
        records[RECORD_KEY_POSITION, place] = row[KEY_POSITION, 0] + _TYPE_BYTES
