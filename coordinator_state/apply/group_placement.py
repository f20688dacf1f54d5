"""The log partitions of many groups at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.replay.partitioner import partition_for


def of_own_log_partition(rows: pa.Table, log_partitions: int) -> pa.Table:
    """The rows of groups (`log_partition`, `group_id`) that are in the group's own log partition.

    Args:
        rows: the rows.
        log_partitions: the number of log partitions.
    """
    own = own_log_partitions(rows["group_id"], log_partitions)
    return rows.filter(pa.array(rows["log_partition"].to_numpy() == own))


def own_log_partitions(group_ids: pa.ChunkedArray, log_partitions: int) -> npt.NDArray[np.int64]:
    """The same as `partitions_for`, for rows of which many have the same group."""
    groups = group_ids.combine_chunks().dictionary_encode()
    own: npt.NDArray[np.int64] = partitions_for(
        pa.chunked_array([groups.dictionary]), log_partitions
    )[groups.indices.to_numpy()]
    return own


def partitions_for(group_ids: pa.ChunkedArray, log_partitions: int) -> npt.NDArray[np.int64]:
    """Return the log partition of each group, as `partition_for` does.

    Args:
        group_ids: strings, without null.
        log_partitions: the number of log partitions, at least 1.
    """
    partitions = np.zeros(len(group_ids), np.int64)
    is_ascii = pc.string_is_ascii(group_ids).to_numpy()
    others = np.flatnonzero(~is_ascii)
    for row, group_id in zip(others, group_ids.take(pa.array(others)).to_pylist(), strict=True):
        partitions[row] = partition_for(group_id, log_partitions)
    # A byte of ASCII is a UTF-16 code unit.
    rows = np.flatnonzero(is_ascii)
    units, starts, sizes = _bytes_of(group_ids.take(pa.array(rows)).cast(pa.large_string()))
    codes = np.zeros(len(rows), np.int32)
    left = np.arange(len(rows))
    for position in range(int(sizes.max(initial=0))):
        left = left[sizes[left] > position]
        codes[left] = codes[left] * np.int32(31) + units[starts[left] + position]
    # The absolute value of `Integer.MIN_VALUE` is itself.
    partitions[rows] = np.maximum(np.abs(codes), 0) % log_partitions
    return partitions


def _bytes_of(texts: pa.ChunkedArray) -> tuple[npt.NDArray[np.uint8], Any, Any]:
    """The UTF-8 bytes of all texts, and the start and the length of each text in them."""
    array = texts.combine_chunks()
    if not len(array):
        return np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    units = np.frombuffer(data or b"", np.uint8)
    return units, ends[:-1], np.diff(ends)
