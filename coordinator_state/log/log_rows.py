"""The rows that the reader of the `coordinator_log` source sends to `foreachBatch`.

All row kinds share one flat schema. The columns that are set depend on `row_kind`:

* `offset`: an OffsetCommit record. `group_id`, `topic`, `partition`, `record_type` (0 or 1) and,
  unless `is_tombstone`, `value_version`, `committed_offset`, `metadata`, `commit_timestamp_ms` and
  the nullable `leader_epoch`, `expire_timestamp_ms`, `topic_id`;
* `marker`: a control record. `control_type` (0 ABORT, 1 COMMIT, others exist);
* `record`: any other coordinator record. `record_type`, `group_id`, `is_tombstone`, `raw_key`,
  `raw_value`;
* `undecodable`: `reason`, and `raw_key`, `raw_value`, `record_type` as far as they could be read;
* `progress`: one per log partition and micro-batch. `record_offset` is the next offset,
  `from_offset` the first record offset of the range, `high_watermark` the one of the plan. Also
  `log_leader_epoch`, `log_epoch_entries` (JSON, as in the offsets of a checkpoint) and the counts.

`log_topic` is the internal topic of the record; null means `__consumer_offsets`. Other topics have
the kinds `record`, without `group_id`, `marker`, `undecodable` and `progress`.

All kinds except `progress` have `producer_id` (-1 for none), `producer_epoch`, `is_transactional`
(attribute bit 4 of the batch) and `record_timestamp_ms`. Each record is either one row or counted
in `records_superseded`; `records_read` counts both.

The program's own query packs rows in the source (`pack`), because Spark transports them cheaper.
"""

from __future__ import annotations

import pyarrow as pa

MOST_STEPS_BACK = 5_000
"""Compaction keeps the last 5,000 commits of a record set that move a committed offset back."""

ROW_KIND_OFFSET = "offset"
ROW_KIND_MARKER = "marker"
ROW_KIND_RECORD = "record"
ROW_KIND_UNDECODABLE = "undecodable"
ROW_KIND_PROGRESS = "progress"

LOG_ROW_SCHEMA = pa.schema(
    [
        pa.field("row_kind", pa.string(), nullable=False),
        pa.field("log_topic", pa.string()),
        pa.field("log_partition", pa.int32(), nullable=False),
        pa.field("record_offset", pa.int64(), nullable=False),
        pa.field("record_timestamp_ms", pa.int64()),
        pa.field("producer_id", pa.int64()),
        pa.field("producer_epoch", pa.int32()),
        pa.field("is_transactional", pa.bool_()),
        pa.field("control_type", pa.int32()),
        pa.field("record_type", pa.int32()),
        pa.field("value_version", pa.int32()),
        pa.field("is_tombstone", pa.bool_()),
        pa.field("group_id", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("committed_offset", pa.int64()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("metadata", pa.string()),
        pa.field("commit_timestamp_ms", pa.int64()),
        pa.field("expire_timestamp_ms", pa.int64()),
        pa.field("topic_id", pa.string()),
        pa.field("raw_key", pa.binary()),
        pa.field("raw_value", pa.binary()),
        pa.field("reason", pa.string()),
        pa.field("from_offset", pa.int64()),
        pa.field("high_watermark", pa.int64()),
        pa.field("log_leader_epoch", pa.int32()),
        pa.field("log_epoch_entries", pa.string()),
        pa.field("records_read", pa.int64()),
        pa.field("records_superseded", pa.int64()),
        pa.field("bytes_read", pa.int64()),
    ]
)

PACKED_ROW_SCHEMA = pa.schema([pa.field("rows", pa.binary(), nullable=False)])
"""Many rows as one value: Spark passes it on whole instead of copying columns row by row."""


def pack(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Pack rows of `LOG_ROW_SCHEMA` into one row of `PACKED_ROW_SCHEMA`.

    The value is a compressed Arrow IPC stream. Most values are equal or null, so a row takes a
    quarter of its bytes in the JVM.
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as stream:
        stream.write_batch(rows)
    return pa.record_batch([pa.array([sink.getvalue().to_pybytes()])], schema=PACKED_ROW_SCHEMA)


def unpack(packed: pa.Table) -> pa.Table:
    """Unpack the rows that `pack` packed."""
    batches = (
        batch for message in packed["rows"] for batch in pa.ipc.open_stream(message.as_buffer())
    )
    return pa.Table.from_batches(batches, schema=LOG_ROW_SCHEMA)


_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
