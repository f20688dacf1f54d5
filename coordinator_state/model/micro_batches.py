"""Turns written records into the rows of a micro-batch of the source."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from coordinator_state.log.commit_sampling import CommitSampling
from coordinator_state.log.kernel import decode_record_set
from coordinator_state.log.log_decoder import OffsetRange
from coordinator_state.log.log_decoder import decode_record_set as decode_other_topic
from coordinator_state.log.log_rows import LOG_ROW_SCHEMA, ROW_KIND_PROGRESS
from coordinator_state.model.log import Written


def micro_batch(written: Iterable[Written], *, sampling: CommitSampling | None = None) -> pa.Table:
    """Rows of `LOG_ROW_SCHEMA`, ready to be applied to the tables.

    Args:
        written: the records of each log partition.
        sampling: leave out commits that a later commit of the same key supersedes, as the source
            does unless all history is kept.
    """
    parts = []
    for part in written:
        offsets = OffsetRange(
            log_partition=part.log_partition,
            from_offset=part.from_offset,
            to_offset=part.to_offset,
            log_topic=part.log_topic,
        )
        if part.log_topic is None:
            decoded = decode_record_set(part.batches, offsets, sampling)
        else:
            decoded = decode_other_topic(part.batches, offsets)
        progress = {
            "row_kind": ROW_KIND_PROGRESS,
            "log_topic": part.log_topic,
            "log_partition": part.log_partition,
            "record_offset": part.to_offset,
            "from_offset": part.from_offset,
            "high_watermark": part.high_watermark,
            "log_leader_epoch": 0,
            "records_read": decoded.records_read,
            "records_superseded": decoded.records_superseded,
            "bytes_read": decoded.bytes_read,
        }
        parts += [decoded.rows, pa.RecordBatch.from_pylist([progress], schema=LOG_ROW_SCHEMA)]
    return pa.Table.from_batches(parts, schema=LOG_ROW_SCHEMA)
