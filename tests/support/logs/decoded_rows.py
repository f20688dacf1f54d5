"""Record sets decoded to rows."""

from __future__ import annotations

from typing import Any

from coordinator_state.log.log_decoder import DecodedRecordSet, decode_record_set
from coordinator_state.log.log_rows import LOG_ROW_SCHEMA
from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key
from tests.support.logs.logs import offset_key, offset_value

KEY = offset_key("g", "t", 3)
VALUE = offset_value(100, metadata="m", commitTimestamp=1234)
GROUP_KEY = encode_key(RECORD_TYPES[2], {"group": "g"})


def decode(
    raw: bytes, *, compact: bool = False, is_cut: bool = False, **offsets: int
) -> DecodedRecordSet:
    offsets = {"log_partition": 7, "from_offset": 0, "to_offset": 1000} | offsets
    return decode_record_set(
        raw,
        log_partition=offsets["log_partition"],
        from_offset=offsets["from_offset"],
        to_offset=offsets["to_offset"],
        compact=compact,
        is_cut=is_cut,
    )


def rows_of(raw: bytes, *, compact: bool = False, **offsets: int) -> list[dict[str, Any]]:
    """The rows without what is null."""
    rows = decode(raw, compact=compact, is_cut=False, **offsets).rows
    assert rows.schema.equals(LOG_ROW_SCHEMA)
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in rows.to_pylist()
    ]


def row_of(key: bytes | None, value: bytes | None, **batch: Any) -> dict[str, Any]:
    """The row of one record, without the columns that every row has."""
    (row,) = rows_of(write_record_batch(5, [(0, 9, key, value)], **batch))
    assert (row.pop("log_partition"), row.pop("record_offset")) == (7, 5)
    for name in ("record_timestamp_ms", "producer_id", "producer_epoch", "is_transactional"):
        assert name in row
        del row[name]
    return row


def offsets_of(raw: bytes, *, compact: bool = False, **offsets: int) -> list[int]:
    return [row["record_offset"] for row in rows_of(raw, compact=compact, **offsets)]
