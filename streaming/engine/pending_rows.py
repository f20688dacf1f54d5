"""Waiting transactional offsets as rows, of a micro-batch and of `pending_offsets`, and back."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from coordinator_state.apply.exact_replay import OFFSET_COLUMNS, PendingOffset
from coordinator_state.log.log_rows import LOG_ROW_SCHEMA
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey
from streaming.tables.columns import with_timestamps
from streaming.tables.schemas import PENDING_OFFSETS

WAITING_SCHEMA = pa.schema(
    [LOG_ROW_SCHEMA.field(name).with_nullable(True) for name in OFFSET_COLUMNS]
    + [pa.field("waits", pa.bool_())]
)
"""Offsets of a micro-batch, and which of them are of a transaction."""
_VALUES = tuple(CommittedOffset.__slots__)
_IN_MS = {
    f"{column.name}_ms" if pa.types.is_timestamp(column.type) else column.name: column.name
    for column in PENDING_OFFSETS.schema
}


def waiting_rows(pending: Sequence[PendingOffset]) -> pa.Table:
    """What waits, as rows of a micro-batch (`WAITING_SCHEMA`)."""
    rows = [
        {
            "log_partition": entry.log_partition,
            "record_timestamp_ms": entry.record_timestamp_ms,
            "is_tombstone": False,
            "waits": True,
            **entry.key._asdict(),
            **{name: getattr(entry.record, name) for name in _VALUES},
        }
        for entry in pending
    ]
    return pa.Table.from_pylist(rows, schema=WAITING_SCHEMA)


def waiting_of(rows: pa.Table) -> list[PendingOffset]:
    """What waits, from rows with times in milliseconds."""
    return [
        PendingOffset(
            log_partition=row["log_partition"],
            key=OffsetKey(row["group_id"], row["topic"], row["partition"]),
            record=CommittedOffset(**{name: row[name] for name in _VALUES}),
            record_timestamp_ms=row["record_timestamp_ms"],
        )
        for row in rows.to_pylist()
    ]


def pending_rows(pending: Sequence[PendingOffset]) -> pa.Table:
    """The whole content of `pending_offsets`."""
    return with_timestamps(waiting_rows(pending).select(list(_IN_MS)))


def read_pending(found: pa.Table) -> list[PendingOffset]:
    """What waits, from the content of `pending_offsets`."""
    in_ms = [
        found[name].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        if pa.types.is_timestamp(found.schema.field(name).type)
        else found[name]
        for name in _IN_MS.values()
    ]
    return waiting_of(pa.table(in_ms, names=list(_IN_MS)))
