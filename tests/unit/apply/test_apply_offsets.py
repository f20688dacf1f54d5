"""The rows and counts of a micro-batch's offsets, their history and hung transactions.

`tests/property/test_apply_applied.py` compares the offsets after any log with the reference loader.
"""

from __future__ import annotations

import numpy as np
import pytest

from coordinator_state.apply.counts import by_log_partition
from coordinator_state.apply.log_partitions import Applied
from coordinator_state.replay.offsets import OffsetKey, Semantics
from tests.support.logs.log_rows import (
    ABORT,
    KEY,
    LOG_PARTITION,
    NOW_MS,
    Row,
    commit,
    marker,
    places,
    table_of,
)
from tests.support.tables.plan_tables import PlanTables

COORDINATOR, SCALA = Semantics.COORDINATOR, Semantics.SCALA
OTHER = OffsetKey("g", "t", 1)
both = pytest.mark.parametrize("semantics", list(Semantics))


def apply_rows(tables: PlanTables, *rows: Row) -> Applied:
    return tables.apply(table_of(rows))


def committed(tables: PlanTables) -> dict[OffsetKey, int]:
    return {key: row["committed_offset"] for (_, key), row in tables.offsets.items()}


def waiting(tables: PlanTables) -> set[tuple[int, int, int]]:
    """The producer, partition and committed offset of each pending offset."""
    return {
        (row["producer_id"], row["partition"], row["committed_offset"])
        for row in tables.pending.to_pylist()
    }


def counted(tables: PlanTables) -> list[int]:
    """The number of applied, superseded and ignored records."""
    counts = tables.counts
    assert not counts.quarantined
    return [
        counts_of.get(LOG_PARTITION, 0)
        for counts_of in (counts.applied, counts.superseded, counts.ignored)
    ]


def outcomes(applied: Applied) -> dict[int, tuple[str, int]]:
    """Per record offset the outcome, and the record offset that decided it."""
    return {
        row["record_offset"]: (row["outcome"], row["outcome_record_offset"])
        for row in applied.offset_commits.to_pylist()
    }


def only_change(applied: Applied) -> Row:
    (change,) = applied.group_offsets.to_pylist()
    change_row: Row = change
    return change_row


@both
def test_the_last_plain_record_of_a_key_wins_in_whatever_order_rows_come(
    semantics: Semantics,
) -> None:
    tables = PlanTables(semantics)
    applied = apply_rows(
        tables,
        commit(12, 3),
        commit(10, 1),
        commit(11, None),
        commit(13, 9, key=OTHER),
        commit(14, None, key=OTHER),
    )

    assert committed(tables) == {KEY: 3}
    assert {c["partition"]: c["guard_offset"] for c in applied.group_offsets.to_pylist()} == {
        0: 12,
        1: 14,
    }
    assert counted(tables) == [2, 3, 0]
    # To history each of them counts: it was what the group had committed for a while.
    assert outcomes(applied) == {offset: ("committed", offset) for offset in range(10, 15)}


@both
def test_a_change_carries_what_the_record_says(semantics: Semantics) -> None:
    columns: Row = {"leader_epoch": 5, "expire_timestamp_ms": NOW_MS + 9, "topic_id": "id"}
    expected = {
        "log_partition": LOG_PARTITION,
        **KEY._asdict(),
        "is_tombstone": False,
        "committed_offset": 100,
        "metadata": "m",
        "commit_timestamp_ms": NOW_MS - 1,
        **columns,
    }

    plain = only_change(apply_rows(PlanTables(semantics), commit(3, 100, **columns)))
    assert plain == {**expected, "guard_offset": 3, "record_offset": 3, "producer_id": None}
    ended = apply_rows(
        PlanTables(semantics), commit(3, 100, producer_id=9, **columns), marker(4, 9)
    )
    assert only_change(ended) == {**plain, "producer_id": 9}


def test_an_offset_that_came_back_gives_way_to_every_later_one() -> None:
    """Its record offset guards it from then on, not the tombstone's."""
    tables = PlanTables(SCALA)
    apply_rows(tables, commit(2, 2, producer_id=7), commit(3, 3, producer_id=8))
    apply_rows(tables, commit(4, 4, producer_id=9), commit(5, 5))
    apply_rows(tables, commit(6, None), marker(7, 8))
    assert committed(tables) == {KEY: 3}

    apply_rows(tables, marker(8, 7))
    assert committed(tables) == {KEY: 3}
    apply_rows(tables, marker(9, 9))
    assert committed(tables) == {KEY: 4}


@both
def test_what_waits_is_carried_on_until_its_marker(semantics: Semantics) -> None:
    tables = PlanTables(semantics)
    apply_rows(tables, commit(3, 3, producer_id=9, leader_epoch=5))
    before = tables.pending
    apply_rows(tables, commit(4, 4, key=OTHER))
    apply_rows(tables)

    assert tables.pending.equals(before)
    assert before.to_pylist() == [
        {
            "log_partition": LOG_PARTITION,
            "producer_id": 9,
            **KEY._asdict(),
            "producer_epoch": 2,
            "committed_offset": 3,
            "leader_epoch": 5,
            "metadata": "m",
            "commit_timestamp_ms": NOW_MS - 1,
            "expire_timestamp_ms": None,
            "topic_id": None,
            "record_offset": 3,
            "record_timestamp_ms": NOW_MS + 3,
            "client_id": None,
            "client_host": None,
        }
    ]


def test_a_transactional_tombstone_under_scala_changes_nothing_stored() -> None:
    tables = PlanTables(SCALA)
    apply_rows(tables, commit(1, 1), commit(2, 2, producer_id=9), commit(3, 3, producer_id=8))
    applied = apply_rows(tables, commit(4, None, producer_id=9))

    assert applied.group_offsets.num_rows == 0
    assert outcomes(applied) == {2: ("cleared", 4), 4: ("committed", 4)}
    assert committed(tables) == {KEY: 1}
    assert waiting(tables) == {(8, 0, 3)}


@both
def test_outcomes_and_what_decided_them(semantics: Semantics) -> None:
    tables = PlanTables(semantics)
    first = apply_rows(tables, commit(1, 1, producer_id=7), commit(2, 2, producer_id=8))
    second = apply_rows(
        tables,
        commit(3, 3, producer_id=7),  # the same producer and key: the first is superseded
        commit(4, 4, producer_id=7, key=OTHER),
        marker(5, 8, ABORT),
        marker(6, 7),
    )

    assert outcomes(first) == {}
    assert outcomes(second) == {
        1: ("superseded", 3),
        2: ("aborted", 5),
        3: ("committed", 6),
        4: ("committed", 6),
    }
    assert committed(tables) == {KEY: 3, OTHER: 4}
    # Two markers and two commits took part; one commit was superseded, one dropped.
    assert counted(tables) == [4, 1, 1]


def test_a_cleared_offset_is_told_with_what_cleared_it() -> None:
    tables = PlanTables(COORDINATOR)
    apply_rows(tables, commit(1, 1, producer_id=7), commit(2, 2, producer_id=8, key=OTHER))
    applied = apply_rows(tables, commit(3, None), marker(4, 7))

    assert outcomes(applied) == {1: ("cleared", 3), 3: ("committed", 3)}
    (cleared,) = (row for row in applied.offset_commits.to_pylist() if row["outcome"] == "cleared")
    assert cleared == {
        "log_partition": LOG_PARTITION,
        "record_offset": 1,
        "record_timestamp_ms": NOW_MS + 1,
        **KEY._asdict(),
        "is_tombstone": False,
        "committed_offset": 1,
        "leader_epoch": None,
        "metadata": "m",
        "commit_timestamp_ms": NOW_MS - 1,
        "expire_timestamp_ms": None,
        "topic_id": None,
        "producer_id": 7,
        "producer_epoch": 2,
        "outcome": "cleared",
        "outcome_record_offset": 3,
        "outcome_timestamp_ms": NOW_MS + 3,
    }
    # The marker found nothing left to end.
    assert counted(tables) == [1, 1, 1]
    assert waiting(tables) == {(8, 1, 2)}


def test_a_transaction_that_hung_is_told_when_it_ends_once_for_each_group() -> None:
    late = NOW_MS + 90_000
    rows = [
        commit(1, 1, producer_id=7),
        commit(2, 1, producer_id=8),
        commit(3, 2, producer_id=7, key=OTHER),
        {**marker(4, 7), "record_timestamp_ms": late},
        {**marker(5, 8), "record_timestamp_ms": NOW_MS + 100},
    ]
    tables = PlanTables(COORDINATOR)
    apply_rows(tables, *rows)
    (event,) = tables.events
    assert (event["event"], event["record_offset"], event["producer_id"]) == (
        *("transaction_hung", 4),
        7,
    )
    assert (event["outcome"], event["duration_ms"]) == ("committed", 89_999)
    assert event["record_timestamp_ms"] == late


def test_rows_are_counted_by_log_partition() -> None:
    rows = places((0, 1), (7, 2), (0, 3))
    assert by_log_partition(rows) == {0: 2, 7: 1}
    assert by_log_partition(rows, np.array([True, False, False])) == {0: 1}
    assert by_log_partition(rows.slice(0, 0)) == {}
