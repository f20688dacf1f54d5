"""What a micro-batch does to offsets: the rules where they reach across micro-batches.

`tests/property/test_apply_plan.py` holds any log to the reference loader; here are the examples
that say why the plan is as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coordinator_state.apply.counts import by_log_partition
from coordinator_state.apply.rows import HISTORY_SCHEMA, OFFSET_CHANGE_SCHEMA
from coordinator_state.replay.offsets import OffsetKey, Semantics
from tests.support.logs.log_rows import (
    ABORT,
    KEY,
    LEADER_CHANGE,
    LOG_PARTITION,
    NOW_MS,
    Row,
    commit,
    marker,
    places,
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


@both
def test_nothing_changes_nothing(semantics: Semantics) -> None:
    plan = Tables(semantics).apply()

    assert plan.changes.equals(OFFSET_CHANGE_SCHEMA.empty_table())
    assert plan.history.equals(HISTORY_SCHEMA.empty_table())
    assert (plan.pending.num_rows, plan.resolved_groups) == (0, set())


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


@pytest.mark.parametrize(
    ("semantics", "committed", "outcome"),
    [(COORDINATOR, {}, ("cleared", 6)), (SCALA, {KEY: 3}, ("committed", 7))],
)
def test_a_tombstone_and_a_commit_marker_after_a_waiting_and_a_stored_offset(
    semantics: Semantics, committed: dict[OffsetKey, int], outcome: tuple[str, int]
) -> None:
    """Under `scala` the older, waiting offset replaces the newer stored one.

    The tombstone took the stored one away; that it lies behind it is what lets the MERGE do so.
    """
    tables = Tables(semantics)
    tables.apply(commit(3, 3, producer_id=9), commit(5, 5))
    assert tables.committed() == {KEY: 5}
    assert tables.waiting() == {(9, KEY, 3)}

    plan = tables.apply(commit(6, None), marker(7, 9))

    assert only_change(plan)["guard_offset"] == 6
    assert tables.committed() == committed
    assert tables.waiting() == set()
    assert outcomes(plan) == {3: outcome, 6: ("committed", 6)}


@pytest.mark.parametrize(("semantics", "committed"), [(COORDINATOR, {}), (SCALA, {KEY: 3})])
def test_the_same_in_a_micro_batch_each(
    semantics: Semantics, committed: dict[OffsetKey, int]
) -> None:
    tables = Tables(semantics)
    for rows in (commit(3, 3, producer_id=9), commit(5, 5), commit(6, None), marker(7, 9)):
        tables.apply(rows)

    assert tables.committed() == committed
    assert tables.waiting() == set()


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
def test_a_waiting_key_whose_plain_commit_comes_later(semantics: Semantics) -> None:
    """The plain one counts at once and stays: it lies further on than the one that waits."""
    tables = Tables(semantics)
    tables.apply(commit(3, 3, producer_id=9))
    tables.apply(commit(4, 4))
    assert tables.committed() == {KEY: 4}
    assert tables.waiting() == {(9, KEY, 3)}

    plan = tables.apply(marker(5, 9))

    assert only_change(plan)["guard_offset"] == 3
    assert tables.committed() == {KEY: 4}
    assert outcomes(plan) == {3: ("committed", 5)}


@both
def test_a_waiting_key_whose_stored_offset_is_older(semantics: Semantics) -> None:
    tables = Tables(semantics)
    tables.apply(commit(2, 20), commit(3, 10, producer_id=9))
    assert tables.committed() == {KEY: 20}

    tables.apply(marker(4, 9))

    assert tables.committed() == {KEY: 10}
    assert tables.offsets[KEY]["producer_id"] == 9


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


@both
def test_a_marker_of_an_unknown_producer_is_ignored(semantics: Semantics) -> None:
    tables = Tables(semantics)
    plan = tables.apply(commit(3, 3), marker(4, 9), marker(5, 9, ABORT))

    assert tables.counted() == (1, 0, 2)
    assert outcomes(plan) == {3: ("committed", 3)}


@both
def test_a_marker_ends_transactions_in_its_own_log_partition_only(semantics: Semantics) -> None:
    tables = Tables(semantics)
    tables.apply(commit(3, 3, producer_id=9), marker(4, 9, log_partition=8))

    assert tables.waiting() == {(9, KEY, 3)}
    assert (tables.counted(), tables.counted(8)) == ((0, 0, 0), (0, 0, 1))


@pytest.mark.parametrize(("semantics", "still_waits"), [(COORDINATOR, True), (SCALA, False)])
def test_another_type_of_marker_ends_a_transaction_under_scala_only(
    semantics: Semantics, still_waits: bool
) -> None:
    tables = Tables(semantics)
    tables.apply(commit(3, 3, producer_id=9), marker(4, 9, LEADER_CHANGE))

    assert bool(tables.pending.num_rows) is still_waits
    assert tables.committed() == {}


@pytest.mark.parametrize(
    ("semantics", "committed", "waiting"),
    [(COORDINATOR, {}, {(9, KEY, 3)}), (SCALA, {KEY: 3}, set())],
)
def test_an_idempotent_producer_without_a_transaction(
    semantics: Semantics, committed: dict[OffsetKey, int], waiting: set[Any]
) -> None:
    tables = Tables(semantics)
    plan = tables.apply(commit(3, 3, producer_id=9, is_transactional=False))

    assert tables.committed() == committed
    assert tables.waiting() == waiting
    # Under `scala` it is a plain commit, and a plain commit names no producer.
    assert [(c["producer_id"]) for c in plan.changes.to_pylist()] == [None] * len(committed)
    assert [(h["producer_id"], h["producer_epoch"]) for h in plan.history.to_pylist()] == (
        [(None, None)] * len(committed)
    )


def test_a_transactional_tombstone_under_scala_changes_nothing_stored() -> None:
    tables = Tables(SCALA)
    tables.apply(commit(1, 1), commit(2, 2, producer_id=9), commit(3, 3, producer_id=8))
    plan = tables.apply(commit(4, None, producer_id=9))

    assert plan.changes.num_rows == 0
    assert outcomes(plan) == {2: ("cleared", 4), 4: ("committed", 4)}
    assert tables.committed() == {KEY: 1}
    assert tables.waiting() == {(8, KEY, 3)}


def test_a_transactional_tombstone_under_coordinator_takes_effect_at_once() -> None:
    tables = Tables(COORDINATOR)
    tables.apply(commit(1, 1), commit(2, 2, producer_id=8))
    tables.apply(commit(3, None, producer_id=9), marker(4, 9, ABORT))

    assert tables.committed() == {}
    assert tables.waiting() == set()


def test_rows_are_counted_by_log_partition() -> None:
    rows = places((0, 1), (7, 2), (0, 3))
    assert by_log_partition(rows) == {0: 2, 7: 1}
    assert by_log_partition(rows, np.array([True, False, False])) == {0: 1}
    assert by_log_partition(rows.slice(0, 0)) == {}
