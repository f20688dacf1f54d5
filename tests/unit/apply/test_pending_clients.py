"""The client of a pending offset: its rules one by one."""

from __future__ import annotations

import pytest

from coordinator_state.replay.offsets import OffsetKey, Semantics
from tests.support.logs.log_rows import KEY, Row, commit, marker, record
from tests.support.logs.logs import group_value
from tests.support.tables.group_tables import COORDINATOR, Tables

both = pytest.mark.parametrize("semantics", list(Semantics))
FIRST, SECOND, THIRD = (OffsetKey("g", "t", partition) for partition in range(3))
A, B = (("client of a", "/127.0.0.1"), ("client of b", "/127.0.0.1"))


def clients(tables: Tables) -> dict[int, tuple[str | None, str | None]]:
    """The client of each pending offset by its record offset."""
    return {
        row["record_offset"]: (row["client_id"], row["client_host"])
        for row in tables.pending.to_pylist()
    }


def of_producer(record_offset: int, key: OffsetKey = KEY, producer_id: int = 9) -> Row:
    return commit(record_offset, record_offset, producer_id=producer_id, key=key)


@both
def test_it_is_the_member_with_the_partition(semantics: Semantics) -> None:
    tables = Tables(semantics)
    tables.apply_rows(record(1, group_value(["a", "b"])))
    tables.apply_rows(of_producer(2, FIRST), of_producer(3, SECOND))
    assert clients(tables) == {2: A, 3: B}


@both
def test_it_is_the_member_at_the_record_offset_of_the_commit(semantics: Semantics) -> None:
    tables = Tables(semantics)
    tables.apply_rows(
        record(1, group_value(["a"])),
        of_producer(2),
        record(3, group_value(["b"])),
        of_producer(4, producer_id=8),
        record(5, group_value([])),
    )
    assert clients(tables) == {2: A, 4: B}


@both
def test_it_stays_after_the_member_has_left(semantics: Semantics) -> None:
    tables = Tables(semantics)
    tables.apply_rows(record(1, group_value(["a", "b"])), of_producer(2))
    tables.apply_rows(record(3, group_value([])))
    tables.apply_rows(of_producer(4), of_producer(5, THIRD))
    assert clients(tables) == {4: A, 5: A}


@both
def test_the_only_member_is_the_client_of_any_partition(semantics: Semantics) -> None:
    tables = Tables(semantics)
    tables.apply_rows(record(1, group_value(["b"])), of_producer(2, THIRD))
    assert clients(tables) == {2: B}


@both
def test_without_a_candidate_it_is_unknown(semantics: Semantics) -> None:
    tables = Tables(semantics)
    tables.apply_rows(of_producer(1), record(2, group_value(["a", "b"])), of_producer(3, THIRD))
    assert clients(tables) == {1: (None, None), 3: (None, None)}


@both
def test_the_next_transaction_of_the_producer_does_not_inherit_it(semantics: Semantics) -> None:
    tables = Tables(semantics)
    tables.apply_rows(record(1, group_value(["a", "b"])), of_producer(2), marker(3, 9))
    tables.apply_rows(record(4, group_value([])), of_producer(5))
    assert clients(tables) == {5: (None, None)}


def test_a_tombstone_clears_the_commit_and_its_client() -> None:
    tables = Tables(COORDINATOR)
    tables.apply_rows(record(1, group_value(["a", "b"])), of_producer(2))
    tables.apply_rows(record(3, group_value([])), commit(4, None), of_producer(5))
    assert clients(tables) == {5: (None, None)}
