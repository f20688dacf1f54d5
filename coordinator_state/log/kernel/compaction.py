"""Reader-side compaction of rows in Arrow columns."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.log.commit_sampling import CommitSampling
from coordinator_state.log.kernel.keys import (
    KIND_GROUP_RECORD,
    KIND_OTHER,
    KIND_OTHER_OFFSET,
    KIND_PLAIN_COMMIT,
    KeyedRows,
    mark_superseded,
    no_keys,
)
from coordinator_state.log.kernel.numbers import Bytes, Integers, Mask, read_only
from coordinator_state.log.log_rows import ROW_KIND_OFFSET, ROW_KIND_RECORD
from coordinator_state.log.record import NO_TIMESTAMP
from coordinator_state.records.record_types import GROUP_METADATA_TYPE, NO_PRODUCER_ID

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def compact(rows: Rows, sampling: CommitSampling) -> tuple[Rows, int]:
    """Drop superseded commits from rows in log order, as `mark_superseded` marks them.

    Returns:
        The remaining rows, and the number of dropped rows.
    """
    is_superseded = np.zeros(rows.num_rows, dtype=np.bool_)
    data, positions, lengths = _keys(rows)
    is_offset = _mask(pc.equal(rows.column("row_kind"), ROW_KIND_OFFSET))
    kinds = np.where(is_offset, KIND_OTHER_OFFSET, KIND_OTHER)
    kinds[_plain_commits(rows)] = KIND_PLAIN_COMMIT
    kinds[_group_records(rows)] = KIND_GROUP_RECORD
    mark_superseded(
        KeyedRows(
            data,
            positions,
            lengths,
            kinds,
            # A copy: for Arrow's read-only array, Numba would compile a second variant.
            _one_array(rows.column("committed_offset")).fill_null(0).to_numpy().copy(),
            _one_array(rows.column("record_timestamp_ms"))
            .fill_null(NO_TIMESTAMP)
            .to_numpy()
            .copy(),
            np.zeros(rows.num_rows, dtype=np.int64),
            zones_of(sampling),
        ),
        is_superseded,
        no_keys(),
        no_keys(),
    )
    kept = rows.filter(pa.array(~is_superseded))
    return kept, rows.num_rows - kept.num_rows


def zones_of(sampling: CommitSampling) -> Integers:
    """The zones as the loops take them."""
    return np.array(sampling.zones, dtype=np.int64).ravel()


def _group_records(rows: pa.Table | pa.RecordBatch) -> Mask:
    is_record = pc.equal(rows.column("row_kind"), ROW_KIND_RECORD)
    is_modern = pc.greater(rows.column("record_type"), GROUP_METADATA_TYPE)
    return _mask(pc.and_(is_record, is_modern))


def _plain_commits(rows: pa.Table | pa.RecordBatch) -> Mask:
    is_plain = pc.and_(
        pc.equal(rows.column("row_kind"), ROW_KIND_OFFSET),
        pc.equal(rows.column("producer_id"), NO_PRODUCER_ID),
    )
    is_exempt = pc.or_(rows.column("is_transactional"), rows.column("is_tombstone"))
    return _mask(pc.and_not(is_plain, is_exempt))


def _mask(values: pa.Array | pa.ChunkedArray) -> Mask:
    mask = _one_array(values).fill_null(False)
    return np.ascontiguousarray(mask.to_numpy(zero_copy_only=False))


def _keys(rows: pa.Table | pa.RecordBatch) -> tuple[Bytes, Integers, Integers]:
    """Return the bytes of all keys, and the position and length of each.

    A key is encoded as in a record, without the length of the topic.
    """
    groups = _one_array(rows.column("group_id")).cast(pa.large_binary()).fill_null(b"")
    topics = _one_array(rows.column("topic")).cast(pa.large_binary()).fill_null(b"")
    partitions = _one_array(rows.column("partition")).fill_null(0)
    keys = pc.binary_join_element_wise(
        _fixed(pc.binary_length(groups).to_numpy().astype(">i2")),
        groups,
        topics,
        _fixed(partitions.to_numpy().astype(">i4")),
        pa.scalar(b"", pa.large_binary()),
    )
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[: rows.num_rows + 1]
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    return read_only(data), offsets[:-1].copy(), np.diff(offsets)


def _fixed(values: npt.NDArray[Any]) -> pa.Array:
    buffers = [None, pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.binary(values.itemsize), len(values), buffers).cast(
        pa.large_binary()
    )


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
