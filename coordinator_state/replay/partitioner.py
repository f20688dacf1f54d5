"""The partitioner: maps a group to its log partition."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

OFFSETS_TOPIC = "__consumer_offsets"
"""Kafka's `Topic.GROUP_METADATA_TOPIC_NAME`."""
DEFAULT_LOG_PARTITIONS = 50
"""Kafka's default of `offsets.topic.num.partitions`."""


def java_hash_code(text: str) -> int:
    """Compute `String.hashCode`: over UTF-16 code units, as a signed int32.

    >>> java_hash_code("polygenelubricants")
    -2147483648
    """
    encoded = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for position in range(0, len(encoded), 2):
        unit = encoded[position] << 8 | encoded[position + 1]
        result = (31 * result + unit) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result


@lru_cache(maxsize=1 << 16)
def partition_for(group_id: str, log_partitions: int = DEFAULT_LOG_PARTITIONS) -> int:
    """Return the log partition of a group: `Utils.abs(groupId.hashCode()) % n`.

    `Utils.abs` maps `Integer.MIN_VALUE` to 0 and any other negative number to its absolute value.

    >>> partition_for("testgroup", 50)
    27
    >>> partition_for("polygenelubricants", 50)
    0

    Raises:
        ValueError: `log_partitions` is not positive.

    Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/
    GroupCoordinatorService.java (`partitionFor`) at 4.2.0.
    """
    if log_partitions < 1:
        raise ValueError(f"log_partitions must be at least 1, not {log_partitions}")
    code = java_hash_code(group_id)
    return (0 if code == -(1 << 31) else abs(code)) % log_partitions


def partitions_for(group_ids: pa.ChunkedArray, log_partitions: int) -> npt.NDArray[np.int64]:
    """Return the log partition of each group, as `partition_for` does.

    Args:
        group_ids: strings, without null.
        log_partitions: the number of log partitions.
    """
    found = np.zeros(len(group_ids), np.int64)
    is_ascii = pc.string_is_ascii(group_ids).to_numpy()
    others = np.flatnonzero(~is_ascii)
    for row, group_id in zip(others, group_ids.take(pa.array(others)).to_pylist(), strict=True):
        found[row] = partition_for(group_id, log_partitions)
    # A byte of ASCII is a UTF-16 code unit.
    rows = np.flatnonzero(is_ascii)
    units, starts, sizes = _bytes_of(group_ids.take(pa.array(rows)).cast(pa.large_string()))
    codes = np.zeros(len(rows), np.int32)
    left = np.arange(len(rows))
    for position in range(int(sizes.max(initial=0))):
        left = left[sizes[left] > position]
        codes[left] = codes[left] * np.int32(31) + units[starts[left] + position]
    # The absolute value of `Integer.MIN_VALUE` is itself.
    found[rows] = np.maximum(np.abs(codes), 0) % log_partitions
    return found


def _bytes_of(texts: pa.ChunkedArray) -> tuple[npt.NDArray[np.uint8], Any, Any]:
    """The UTF-8 bytes of all texts, and the start and the length of each text in them."""
    array = texts.combine_chunks()
    if not len(array):
        return np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    units = np.frombuffer(data or b"", np.uint8)
    return units, ends[:-1], np.diff(ends)
