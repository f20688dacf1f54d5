"""The rows of the `coordinator_log` source: what crosses from the reader to `foreachBatch`.

One flat schema for every `row_kind`; which columns are set depends on the kind:

* `offset`: an OffsetCommit record. `group_id`, `topic`, `partition`, `record_type` (0 or 1) and,
  unless `is_tombstone`, `value_version`, `committed_offset`, `metadata`, `commit_timestamp_ms` and
  the nullable `leader_epoch`, `expire_timestamp_ms`, `topic_id`;
* `marker`: a control record. `control_type` (0 ABORT, 1 COMMIT, others exist);
* `record`: any other coordinator record. `record_type`, `group_id`, `is_tombstone`, `raw_key`,
  `raw_value`;
* `undecodable`: `reason` and whatever of `raw_key`, `raw_value`, `record_type` could be read;
* `progress`: one per log partition and micro-batch. `record_offset` is the next offset to read,
  `from_offset` the first offset of the range, `high_watermark` as planned, `log_leader_epoch`, and
  the counts.

All kinds but `progress` carry `producer_id` (-1 for none), `producer_epoch`, `is_transactional`
(attribute bit 4 of the batch) and `record_timestamp_ms`. Every record read is either one row or
counted in `records_superseded`; `records_read` counts both.

The program's own query has the source pack rows, for Spark to carry them at less cost.
"""

from __future__ import annotations

import pyarrow as pa

MOST_STEPS_BACK = 5_000
"""Of a record set, the last so many commits that set an offset back survive compaction."""

ROW_KIND_OFFSET = "offset"
ROW_KIND_MARKER = "marker"
ROW_KIND_RECORD = "record"
ROW_KIND_UNDECODABLE = "undecodable"
ROW_KIND_PROGRESS = "progress"

LOG_ROW_SCHEMA = pa.schema(
    [
        pa.field("row_kind", pa.string(), nullable=False),
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
        pa.field("records_read", pa.int64()),
        pa.field("records_superseded", pa.int64()),
        pa.field("bytes_read", pa.int64()),
    ]
)

PACKED_ROW_SCHEMA = pa.schema([pa.field("rows", pa.binary(), nullable=False)])
"""Many rows as one: Spark then hands on a value, where it would go through each row's columns."""


def pack(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of `LOG_ROW_SCHEMA` as one of `PACKED_ROW_SCHEMA`: a compressed Arrow IPC stream.

    Most columns of most rows are alike or null, so a row takes a quarter of its bytes in the JVM.
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as stream:
        stream.write_batch(rows)
    return pa.record_batch([pa.array([sink.getvalue().to_pybytes()])], schema=PACKED_ROW_SCHEMA)


def unpack(packed: pa.Table) -> pa.Table:
    """The rows that `pack` packed."""
    batches = (
        batch for message in packed["rows"] for batch in pa.ipc.open_stream(message.as_buffer())
    )
    return pa.Table.from_batches(batches, schema=LOG_ROW_SCHEMA)


_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
