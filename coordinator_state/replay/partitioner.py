"""The partitioner: maps a group to its log partition."""

from __future__ import annotations

from functools import lru_cache

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
