"""The client of a pending offset: its rules one by one."""

from __future__ import annotations

import pytest

from coordinator_state.replay.offsets import OffsetKey, Semantics
from tests.support.logs.log_rows import KEY, Row, commit, marker, record
from tests.support.logs.logs import group_value
from tests.support.tables.plan_tables import PlanTables

Client = tuple[str | None, str | None]
FIRST, SECOND, THIRD = (OffsetKey("g", "t", partition) for partition in range(3))
A, B = ("client of a", "/127.0.0.1"), ("client of b", "/127.0.0.1")
UNKNOWN = (None, None)


def of_producer(record_offset: int, key: OffsetKey = KEY, producer_id: int = 9) -> Row:
    return commit(record_offset, record_offset, producer_id=producer_id, key=key)


CASES: dict[str, tuple[list[list[Row]], dict[int, Client]]] = {
    "the member with the partition": (
        [[record(1, group_value(["a", "b"]))], [of_producer(2, FIRST), of_producer(3, SECOND)]],
        {2: A, 3: B},
    ),
    "the member at the record offset of the commit": (
        [
            [
                record(1, group_value(["a"])),
                of_producer(2),
                record(3, group_value(["b"])),
                of_producer(4, producer_id=8),
                record(5, group_value([])),
            ]
        ],
        {2: A, 4: B},
    ),
    "the same after the member has left": (
        [
            [record(1, group_value(["a", "b"])), of_producer(2)],
            [record(3, group_value([]))],
            [of_producer(4), of_producer(5, THIRD)],
        ],
        {4: A, 5: A},
    ),
    "the only member": ([[record(1, group_value(["b"])), of_producer(2, THIRD)]], {2: B}),
    "unknown without a candidate": (
        [[of_producer(1), record(2, group_value(["a", "b"])), of_producer(3, THIRD)]],
        {1: UNKNOWN, 3: UNKNOWN},
    ),
    "unknown in the next transaction of the producer": (
        [
            [record(1, group_value(["a", "b"])), of_producer(2), marker(3, 9)],
            [record(4, group_value([])), of_producer(5)],
        ],
        {5: UNKNOWN},
    ),
}


@pytest.mark.parametrize("semantics", list(Semantics))
@pytest.mark.parametrize(("micro_batches", "expected"), CASES.values(), ids=CASES.keys())
def test_the_client_of_a_pending_offset(
    semantics: Semantics, micro_batches: list[list[Row]], expected: dict[int, Client]
) -> None:
    tables = PlanTables(semantics)
    for rows in micro_batches:
        tables.apply_rows(*rows)
    assert _clients(tables) == expected


def test_a_tombstone_clears_the_commit_and_its_client() -> None:
    tables = PlanTables(Semantics.COORDINATOR)
    tables.apply_rows(record(1, group_value(["a", "b"])), of_producer(2))
    tables.apply_rows(record(3, group_value([])), commit(4, None), of_producer(5))
    assert _clients(tables) == {5: UNKNOWN}


def _clients(tables: PlanTables) -> dict[int, Client]:
    """The client of each pending offset by its record offset."""
    return {
        row["record_offset"]: (row["client_id"], row["client_host"])
        for row in tables.pending.to_pylist()
    }
