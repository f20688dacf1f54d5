"""Group to log partition. The vectors are those of Kafka 4.2.0, the hashes Java's."""

from __future__ import annotations

import pytest

from coordinator_state.replay.partitioner import java_hash_code, partition_for

VECTORS = [
    ("", 0, 0, 0),
    ("a", 97, 47, 6),
    # `& 0x7fffffff`, which is what Kafka's clients do for other things, would give 36.
    ("my-group", -1906497762, 12, 1),
    # Hashes to Integer.MIN_VALUE, whose Math.abs is negative.
    ("polygenelubricants", -(2**31), 0, 0),
    ("f5a5a608", 0, 0, 0),
    # A surrogate pair is two units.
    ("consumer-\U0001f600", -856676710, 10, 1),
    ("group-\u00e9", 293427483, 33, 6),
]


@pytest.mark.parametrize(("group_id", "code", "of_50", "of_7"), VECTORS)
def test_a_group_lives_where_kafka_looks_for_it(
    group_id: str, code: int, of_50: int, of_7: int
) -> None:
    assert java_hash_code(group_id) == code
    assert partition_for(group_id) == partition_for(group_id, 50) == of_50
    assert partition_for(group_id, 7) == of_7
    assert partition_for(group_id, 1) == 0


def test_a_lone_surrogate_hashes_as_javas_string_of_it() -> None:
    assert java_hash_code("\ud83d") == 0xD83D
    assert java_hash_code("\ud83d\ude00") == java_hash_code("\U0001f600")


@pytest.mark.parametrize("log_partitions", [0, -1])
def test_a_topic_has_at_least_one_partition(log_partitions: int) -> None:
    with pytest.raises(ValueError, match=f"must be at least 1, not {log_partitions}"):
        partition_for("g", log_partitions)
