"""The writer of record batches (magic 2) as in a broker's log; `record_batch` reads them.

Source: clients/src/main/java/org/apache/kafka/common/record/DefaultRecordBatch.java,
MemoryRecords.java and EndTransactionMarker.java at 4.2.0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from crc32c import crc32c

from coordinator_state.log.record import NO_TIMESTAMP, write_record
from coordinator_state.log.record_batch import (
    BATCH_HEADER,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
)
from coordinator_state.log.record_set import BATCH_HEADER_BYTES, CRC_START, LOG_OVERHEAD_BYTES
from coordinator_state.records.record_types import NO_PRODUCER_ID
from coordinator_state.wire.compression import COMPRESSIONS, compress


def write_record_batch(
    base_offset: int,
    records: Sequence[tuple[int, int, bytes | None, bytes | None]],
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    is_log_append_time: bool = False,
    compression: str = "none",
    leader_epoch: int = 0,
    delete_horizon_ms: int | None = None,
    last_offset_delta: int | None = None,
    max_timestamp_ms: int | None = None,
) -> bytes:
    """Write a batch of records of (offset_delta, timestamp_ms, key, value), with its checksum.

    `last_offset_delta` and `max_timestamp_ms` default to those of the records. Compaction keeps the
    original values when it removes records.
    """
    base_timestamp_ms = records[0][1] if records else NO_TIMESTAMP
    if delete_horizon_ms is not None:
        base_timestamp_ms = delete_horizon_ms
    if last_offset_delta is None:
        last_offset_delta = records[-1][0] if records else 0
    if not records:
        # As `DefaultRecordBatch.writeEmptyHeader` does.
        compression = "none"
    if max_timestamp_ms is None:
        max_timestamp_ms = max((record[1] for record in records), default=NO_TIMESTAMP)
    attributes = (
        COMPRESSIONS.index(compression)
        | (LOG_APPEND_TIME_FLAG if is_log_append_time else 0)
        | (TRANSACTIONAL_FLAG if is_transactional else 0)
        | (CONTROL_FLAG if is_control else 0)
        | (DELETE_HORIZON_FLAG if delete_horizon_ms is not None else 0)
    )
    body = bytearray()
    for offset_delta, timestamp_ms, key, value in records:
        write_record(
            body,
            offset_delta=offset_delta,
            timestamp_delta=timestamp_ms - base_timestamp_ms,
            key=key,
            value=value,
        )
    return seal_record_batch(
        base_offset,
        compress(compression, bytes(body)),
        records_count=len(records),
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
    )


def seal_record_batch(
    base_offset: int,
    payload: bytes | memoryview,
    *,
    records_count: int,
    last_offset_delta: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = 0,
) -> bytes:
    """Write a batch of magic 2 around already encoded records, with its checksum."""
    out = bytearray(
        BATCH_HEADER.pack(
            base_offset,
            BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES + len(payload),
            leader_epoch,
            2,
            0,
            attributes,
            last_offset_delta,
            base_timestamp_ms,
            max_timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            records_count,
        )
    )
    out += payload
    struct.pack_into(">I", out, CRC_START - 4, crc32c(out[CRC_START:]))
    return bytes(out)


def write_control_batch(
    base_offset: int,
    producer_id: int,
    producer_epoch: int,
    control_type: int,
    *,
    timestamp_ms: int = 0,
    coordinator_epoch: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """Write the marker that ends a transaction: control type 1 for COMMIT, 0 for ABORT.

    Source: `EndTransactionMarker` and `MemoryRecords.withEndTransactionMarker` at 4.2.0.
    """
    key = struct.pack(">hh", 0, control_type)
    value = struct.pack(">hi", 0, coordinator_epoch)
    return write_record_batch(
        base_offset,
        [(0, timestamp_ms, key, value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        leader_epoch=leader_epoch,
    )
