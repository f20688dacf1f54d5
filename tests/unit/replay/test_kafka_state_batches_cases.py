"""Kafka's own cases of combining state batches.

PersisterStateBatchCombinerTest.java and PersisterStateBatchCombinerStressTest.java at trunk
(commits 1d302da7157d and 62d5e3b7a783), after KAFKA-20691. A batch is its first offset, last
offset, delivery state and delivery count.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from coordinator_state.replay.share_partitions import StateBatch, combine_state_batches

Batch = tuple[int, int, int, int]
Case = tuple[list[Batch], list[Batch], list[Batch]]
"""The stored batches, the new ones, and the combined ones."""

SAME_STATE: dict[str, Case] = {
    "equal": ([(100, 110, 0, 1)], [(100, 110, 0, 1)], [(100, 110, 0, 1)]),
    "same first, smaller last": ([(100, 110, 0, 1)], [(100, 105, 0, 1)], [(100, 110, 0, 1)]),
    "same first, larger last": ([(100, 110, 0, 1)], [(100, 115, 0, 1)], [(100, 115, 0, 1)]),
    "inside": ([(100, 110, 0, 1)], [(105, 108, 0, 1)], [(100, 110, 0, 1)]),
    "larger first, same last": ([(100, 110, 0, 1)], [(105, 110, 0, 1)], [(100, 110, 0, 1)]),
    "larger first and last": ([(100, 110, 0, 1)], [(105, 115, 0, 1)], [(100, 115, 0, 1)]),
    "contiguous": ([(100, 110, 0, 1)], [(111, 115, 0, 1)], [(100, 115, 0, 1)]),
}

DIFFERENT_STATES: dict[str, Case] = {
    "higher, equal": ([(100, 110, 0, 1)], [(100, 110, 0, 2)], [(100, 110, 0, 2)]),
    "lower, equal": ([(100, 110, 0, 3)], [(100, 110, 0, 1)], [(100, 110, 0, 3)]),
    "higher, same first, smaller last": (
        [(100, 110, 0, 1)],
        [(100, 105, 0, 2)],
        [(100, 105, 0, 2), (106, 110, 0, 1)],
    ),
    "lower, same first, smaller last": (
        [(100, 110, 0, 3)],
        [(100, 105, 0, 1)],
        [(100, 110, 0, 3)],
    ),
    "higher, same first, larger last": (
        [(100, 110, 0, 1)],
        [(100, 115, 0, 2)],
        [(100, 115, 0, 2)],
    ),
    "lower, same first, larger last": (
        [(100, 110, 0, 3)],
        [(100, 115, 0, 1)],
        [(100, 110, 0, 3), (111, 115, 0, 1)],
    ),
    "higher, inside": (
        [(100, 115, 0, 1)],
        [(105, 110, 1, 1)],
        [(100, 104, 0, 1), (105, 110, 1, 1), (111, 115, 0, 1)],
    ),
    "lower, inside": ([(100, 115, 1, 1)], [(105, 110, 0, 1)], [(100, 115, 1, 1)]),
    "higher, larger first, same last": (
        [(100, 110, 0, 1)],
        [(105, 110, 0, 2)],
        [(100, 104, 0, 1), (105, 110, 0, 2)],
    ),
    "lower, larger first, same last": (
        [(100, 110, 0, 2)],
        [(105, 110, 0, 1)],
        [(100, 110, 0, 2)],
    ),
    "higher, larger first and last": (
        [(100, 110, 0, 1)],
        [(105, 115, 0, 2)],
        [(100, 104, 0, 1), (105, 115, 0, 2)],
    ),
    "lower, larger first and last": (
        [(100, 110, 0, 2)],
        [(105, 115, 0, 1)],
        [(100, 110, 0, 2), (111, 115, 0, 1)],
    ),
}

COMPLEX: dict[str, tuple[int, Case]] = {
    "overlapping new batches of one state": (
        -1,
        (
            [(100, 110, 0, 1), (121, 130, 0, 1)],
            [(111, 119, 2, 2), (116, 123, 2, 2)],
            [(100, 110, 0, 1), (111, 123, 2, 2), (124, 130, 0, 1)],
        ),
    ),
    "overlapping new batches of several states": (
        -1,
        (
            [(100, 110, 0, 1)],
            [(101, 105, 1, 2), (101, 115, 2, 2), (101, 120, 3, 2)],
            [(100, 100, 0, 1), (101, 120, 3, 2)],
        ),
    ),
    "a start offset within the new batches": (
        120,
        (
            [(100, 110, 0, 1), (121, 130, 0, 1)],
            [(111, 119, 2, 2), (116, 123, 2, 2)],
            [(120, 123, 2, 2), (124, 130, 0, 1)],
        ),
    ),
    "several new batches within a stored one": (
        -1,
        (
            [(111, 120, 0, 1)],
            [(111, 113, 0, 2), (114, 114, 2, 1), (115, 119, 0, 2)],
            [(111, 113, 0, 2), (114, 114, 2, 1), (115, 119, 0, 2), (120, 120, 0, 1)],
        ),
    ),
}

CORNER: dict[str, tuple[int, Case]] = {
    "a start offset within a stored batch": (120, ([(100, 130, 0, 1)], [], [(120, 130, 0, 1)])),
    "a start offset within a new batch": (120, ([], [(100, 130, 0, 1)], [(120, 130, 0, 1)])),
    "no batches": (120, ([], [], [])),
    "no batches, no start offset": (-1, ([], [], [])),
    "equal batches before a gap and another state": (
        -1,
        (
            [(100, 110, 0, 1)],
            [(100, 110, 0, 1), (120, 130, 2, 1)],
            [(100, 110, 0, 1), (120, 130, 2, 1)],
        ),
    ),
    "equal acknowledged batches before a gap": (
        -1,
        (
            [(0, 5, 2, 1)],
            [(0, 5, 2, 1), (11, 15, 0, 1)],
            [(0, 5, 2, 1), (11, 15, 0, 1)],
        ),
    ),
    "equal batches before a gap and the same state": (
        -1,
        (
            [(0, 5, 0, 1)],
            [(0, 5, 0, 1), (11, 15, 0, 1)],
            [(0, 5, 0, 1), (11, 15, 0, 1)],
        ),
    ),
}

CASES: dict[str, tuple[int, Case]] = {
    **{f"same state, {name}": (-1, case) for name, case in SAME_STATE.items()},
    **{f"different states, {name}": (-1, case) for name, case in DIFFERENT_STATES.items()},
    **COMPLEX,
    **CORNER,
}


def combined(batches: list[Batch], start_offset: int = -1) -> list[Batch]:
    found = combine_state_batches(
        (
            StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
            for first, last, state, count in batches
        ),
        start_offset,
    )
    return [
        (batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in found
    ]


@pytest.mark.parametrize(("start_offset", "case"), CASES.values(), ids=CASES)
def test_state_batch_combine(start_offset: int, case: Case) -> None:
    stored, new, expected = case
    assert combined([*stored, *new], start_offset) == expected


def test_many_contiguous_same_state_batches_coalesce_into_one() -> None:
    batches = [(first, first + 9, 0, 1) for first in range(0, 100_000, 10)]
    assert combined(batches) == [(0, 99_999, 0, 1)]


def test_many_shuffled_same_state_batches_coalesce_into_one() -> None:
    batches = [(first, first + 9, 0, 1) for first in range(0, 50_000, 10)]
    Random(42).shuffle(batches)
    assert combined(batches) == [(0, 49_999, 0, 1)]


def test_alternating_state_batches_are_not_merged() -> None:
    batches = [(10 * n, 10 * n + 9, n % 2 * 2, 1) for n in range(1_000)]
    assert combined(batches) == batches


def test_result_is_sorted_disjoint_coverage() -> None:
    random = Random(7)
    batches = []
    for _ in range(2_000):
        first = random.randrange(100_000)
        batches.append(
            (first, first + random.randrange(50), random.randrange(4), random.randint(1, 3))
        )
    result = combined(batches)
    assert all(first <= last for first, last, _, _ in result)
    assert all(before[1] < after[0] for before, after in pairwise(result))
    # Kafka's case ends above. All offsets of the batches are covered, and no others.
    covered = {offset for first, last, _, _ in batches for offset in range(first, last + 1)}
    assert {offset for first, last, _, _ in result for offset in range(first, last + 1)} == covered
