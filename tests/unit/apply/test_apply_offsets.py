"""The rows and counts of a micro-batch's offsets, their history and hung transactions.

`tests/property/test_apply_plan.py` compares the offsets after any log with the reference loader.
"""

from __future__ import annotations

import numpy as np

from coordinator_state.apply.counts import by_log_partition
from coordinator_state.replay.offsets import Semantics
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
from tests.support.tables.offset_tables import (
    COORDINATOR,
    OTHER,
    SCALA,
    Tables,
    both,
    only_change,
    outcomes,
)
from tests.support.tables.plan_tables import PlanTables


@both
def test_the_last_plain_record_of_a_key_wins_in_whatever_order_rows_come(
    semantics: Semantics,
) -> None:
    tables = Tables(semantics)
    plan = tables.apply(
        commit(12, 3),
        commit(10, 1),
        commit(11, None),
        commit(13, 9, key=OTHER),
        commit(14, None, key=OTHER),
    )

    assert tables.committed() == {KEY: 3}
    assert {c["partition"]: c["guard_offset"] for c in plan.changes.to_pylist()} == {0: 12, 1: 14}
    assert tables.counted() == (2, 3, 0)
    # To history each of them counts: it was what the group had committed for a while.
    assert outcomes(plan) == {offset: ("committed", offset) for offset in range(10, 15)}


@both
def test_the_same_key_in_two_log_partitions_is_two_keys(semantics: Semantics) -> None:
    """A topic that was expanded leaves orphans behind; the broker of each answers for its own."""
    plan = Tables(semantics).apply(
        commit(10, 1, log_partition=1), commit(5, 2, log_partition=2), marker(6, 9, log_partition=2)
    )

    assert {c["log_partition"]: c["committed_offset"] for c in plan.changes.to_pylist()} == {
        1: 1,
        2: 2,
    }


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

    plain = only_change(Tables(semantics).apply(commit(3, 100, **columns)))
    assert plain == {**expected, "guard_offset": 3, "record_offset": 3, "producer_id": None}
    ended = Tables(semantics).apply(commit(3, 100, producer_id=9, **columns), marker(4, 9))
    assert only_change(ended) == {**plain, "producer_id": 9}


def test_an_offset_that_came_back_gives_way_to_every_later_one() -> None:
    """Its record offset guards it from then on, not the tombstone's."""
    tables = Tables(SCALA)
    tables.apply(commit(2, 2, producer_id=7), commit(3, 3, producer_id=8))
    tables.apply(commit(4, 4, producer_id=9), commit(5, 5))
    tables.apply(commit(6, None), marker(7, 8))
    assert tables.committed() == {KEY: 3}

    tables.apply(marker(8, 7))
    assert tables.committed() == {KEY: 3}
    tables.apply(marker(9, 9))
    assert tables.committed() == {KEY: 4}


@both
def test_what_waits_is_carried_on_until_its_marker(semantics: Semantics) -> None:
    tables = Tables(semantics)
    tables.apply(commit(3, 3, producer_id=9, leader_epoch=5))
    before = tables.pending
    tables.apply(commit(4, 4, key=OTHER))
    tables.apply()

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
            # A later stage adds the client.
            "client_id": None,
            "client_host": None,
        }
    ]


def test_a_transactional_tombstone_under_scala_changes_nothing_stored() -> None:
    tables = Tables(SCALA)
    tables.apply(commit(1, 1), commit(2, 2, producer_id=9), commit(3, 3, producer_id=8))
    plan = tables.apply(commit(4, None, producer_id=9))

    assert plan.changes.num_rows == 0
    assert outcomes(plan) == {2: ("cleared", 4), 4: ("committed", 4)}
    assert tables.committed() == {KEY: 1}
    assert tables.waiting() == {(8, KEY, 3)}


@both
def test_outcomes_and_what_decided_them(semantics: Semantics) -> None:
    tables = Tables(semantics)
    first = tables.apply(commit(1, 1, producer_id=7), commit(2, 2, producer_id=8))
    second = tables.apply(
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
    assert second.resolved_groups == {(LOG_PARTITION, "g")}
    assert tables.committed() == {KEY: 3, OTHER: 4}
    # Two markers and two commits took part; one commit was superseded, one dropped.
    assert tables.counted() == (4, 1, 1)


def test_a_cleared_offset_is_told_with_what_cleared_it() -> None:
    tables = Tables(COORDINATOR)
    tables.apply(commit(1, 1, producer_id=7), commit(2, 2, producer_id=8, key=OTHER))
    plan = tables.apply(commit(3, None), marker(4, 7))

    assert outcomes(plan) == {1: ("cleared", 3), 3: ("committed", 3)}
    assert plan.resolved_groups == {(LOG_PARTITION, "g")}
    (cleared,) = (told for told in plan.history.to_pylist() if told["outcome"] == "cleared")
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
    assert tables.counted() == (1, 1, 1)
    assert tables.waiting() == {(8, OTHER, 2)}


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
    tables.apply(table_of(rows), end=0)
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
