"""Rows of `LOG_ROW_SCHEMA` by hand, for the tests of what a micro-batch does with them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from coordinator_state.log.commit_sampling import CommitSampling
from coordinator_state.log.log_rows import LOG_ROW_SCHEMA
from coordinator_state.records.record_types import NO_PRODUCER_ID, RECORD_TYPES
from coordinator_state.records.serde import encode_key
from coordinator_state.replay.offsets import OffsetKey

LOG_PARTITION = 7
KEY = OffsetKey("g", "t", 0)
NOW_MS = 1_700_000_000_000

SAMPLED = CommitSampling.at(time.time_ns() // 1_000_000)
"""The sampling of history as of now, so records of the simulated past are old."""

COMMIT, ABORT, LEADER_CHANGE = 1, 0, 2

Row = dict[str, Any]


def commit(
    record_offset: int,
    committed_offset: int | None,
    *,
    producer_id: int = NO_PRODUCER_ID,
    key: OffsetKey = KEY,
    log_partition: int = LOG_PARTITION,
    **columns: Any,
) -> Row:
    """An offset row; a committed offset of None makes it a tombstone."""
    value = {
        "committed_offset": committed_offset,
        "metadata": "m",
        "commit_timestamp_ms": NOW_MS - 1,
    }
    return {
        **_row("offset", record_offset, producer_id, log_partition),
        **key._asdict(),
        "record_type": 1,
        "is_tombstone": committed_offset is None,
        **(value if committed_offset is not None else {}),
        **columns,
    }


def marker(
    record_offset: int,
    producer_id: int,
    control_type: int = COMMIT,
    *,
    log_partition: int = LOG_PARTITION,
) -> Row:
    """The end of a producer's transaction."""
    row = _row("marker", record_offset, producer_id, log_partition)
    return {**row, "is_transactional": True, "control_type": control_type}


def record(record_offset: int, raw_value: bytes | None, record_type: int = 2, **key: str) -> Row:
    """A group record, of group `g` unless the key says otherwise; None is a tombstone."""
    group_field = RECORD_TYPES[record_type].key_fields[0].name
    fields = {group_field: "g", **key}
    return {
        **_row("record", record_offset, NO_PRODUCER_ID, LOG_PARTITION),
        "record_type": record_type,
        "group_id": fields[group_field],
        "is_tombstone": raw_value is None,
        "raw_key": encode_key(RECORD_TYPES[record_type], fields),
        "raw_value": raw_value,
    }


def progress_row(
    from_offset: int,
    to_offset: int,
    *,
    log_partition: int = LOG_PARTITION,
    high_watermark: int | None = None,
    records_read: int | None = None,
    records_superseded: int = 0,
    bytes_read: int = 1,
) -> Row:
    """What the source says of a range of a log partition; all of it unless said otherwise."""
    return {
        "row_kind": "progress",
        "log_partition": log_partition,
        "from_offset": from_offset,
        "record_offset": to_offset,
        "high_watermark": to_offset if high_watermark is None else high_watermark,
        "log_leader_epoch": 0,
        "log_epoch_entries": None,
        "records_read": to_offset - from_offset if records_read is None else records_read,
        "records_superseded": records_superseded,
        "bytes_read": bytes_read,
    }


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Rows as the source hands them over."""
    return pa.Table.from_pylist(list(rows), schema=LOG_ROW_SCHEMA)


def _row(kind: str, record_offset: int, producer_id: int, log_partition: int) -> Row:
    return {
        "row_kind": kind,
        "log_partition": log_partition,
        "record_offset": record_offset,
        "record_timestamp_ms": NOW_MS + record_offset,
        "producer_id": producer_id,
        "producer_epoch": -1 if producer_id == NO_PRODUCER_ID else 2,
        "is_transactional": producer_id != NO_PRODUCER_ID,
    }
