"""Waiting transactional offsets as rows of `pending_offsets`, and back."""

from __future__ import annotations

import pyarrow as pa

from coordinator_state.offsets import CommittedOffset, OffsetKey
from streaming.apply.exact_replay import PendingOffset
from streaming.tables import delta
from streaming.tables.schemas import PENDING_OFFSETS


def pending_rows(pending: list[PendingOffset]) -> pa.Table:
    """The table's whole content."""
    rows = [
        {
            "log_partition": entry.log_partition,
            **entry.key._asdict(),
            "producer_id": entry.record.producer_id,
            "producer_epoch": entry.record.producer_epoch,
            "committed_offset": entry.record.committed_offset,
            "leader_epoch": entry.record.leader_epoch,
            "metadata": entry.record.metadata,
            "commit_timestamp_ms": entry.record.commit_timestamp_ms,
            "expire_timestamp_ms": entry.record.expire_timestamp_ms,
            "topic_id": entry.record.topic_id,
            "record_offset": entry.record.record_offset,
            "record_timestamp_ms": entry.record_timestamp_ms,
        }
        for entry in pending
    ]
    in_ms = pa.schema(
        [
            pa.field(f"{column.name}_ms", pa.int64())
            if column.name.endswith("_timestamp")
            else column
            for column in PENDING_OFFSETS.schema
        ]
    )
    return delta.with_timestamps(pa.Table.from_pylist(rows, schema=in_ms))


def read_pending(found: pa.Table) -> list[PendingOffset]:
    """What waits, from the table's content."""
    return [
        PendingOffset(
            log_partition=row["log_partition"],
            key=OffsetKey(row["group_id"], row["topic"], row["partition"]),
            record=CommittedOffset(
                committed_offset=row["committed_offset"],
                leader_epoch=row["leader_epoch"],
                metadata=row["metadata"],
                commit_timestamp_ms=row["commit_timestamp"],
                expire_timestamp_ms=row["expire_timestamp"],
                topic_id=row["topic_id"],
                record_offset=row["record_offset"],
                producer_id=row["producer_id"],
                producer_epoch=row["producer_epoch"],
            ),
            record_timestamp_ms=row["record_timestamp"],
        )
        for row in _in_milliseconds(found).to_pylist()
    ]


def _in_milliseconds(rows: pa.Table) -> pa.Table:
    """Timestamps as integers, since Python's datetime would have to be taken apart again."""
    for index, column in enumerate(rows.schema):
        if pa.types.is_timestamp(column.type):
            in_ms = rows[column.name].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
            rows = rows.set_column(index, column.name, in_ms)
    return rows
