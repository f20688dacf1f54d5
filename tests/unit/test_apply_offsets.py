"""What a micro-batch does to offsets: the rules where they reach across micro-batches.

`tests/property/test_apply_plan.py` holds any log to the reference loader; here are the examples
that say why the plan is as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from coordinator_state.offsets import CommittedOffset, OffsetKey, Semantics
from streaming.apply.exact_replay import PendingOffset, RecordCounts
from streaming.apply.offsets import (
    HISTORY_SCHEMA,
    OFFSET_CHANGE_SCHEMA,
    OffsetPlan,
    plan_offsets,
)
from tests.log_rows import (
    ABORT,
    KEY,
    LEADER_CHANGE,
    LOG_PARTITION,
    NOW_MS,
    Row,
    commit,
    marker,
    table_of,
)

COORDINATOR, SCALA = Semantics.COORDINATOR, Semantics.SCALA
both = pytest.mark.parametrize("semantics", list(Semantics))

OTHER = OffsetKey("g", "t", 1)


@dataclass
class Tables:
    """`group_offsets` and `pending_offsets`, changed as the MERGE and the overwrite change them."""

    semantics: Semantics
    offsets: dict[OffsetKey, Row] = field(default_factory=dict)
    pending: list[PendingOffset] = field(default_factory=list)
    counts: RecordCounts = field(default_factory=RecordCounts)

    def apply(self, *rows: Row) -> OffsetPlan:
        plan = plan_offsets(table_of(rows), self.pending, self.semantics, self.counts)
        self.merge(plan)
        self.pending = plan.pending
        return plan

    def merge(self, plan: OffsetPlan) -> None:
        for change in plan.changes.to_pylist():
            key = OffsetKey(change["group_id"], change["topic"], change["partition"])
            stored = self.offsets.get(key)
            if stored is not None and change["position"] < stored["record_offset"]:
                continue
            if change["is_tombstone"]:
                self.offsets.pop(key, None)
            else:
                self.offsets[key] = change

    def committed(self) -> dict[OffsetKey, int]:
        return {key: stored["committed_offset"] for key, stored in self.offsets.items()}

    def waiting(self) -> set[tuple[int | None, OffsetKey, int]]:
        return {(e.record.producer_id, e.key, e.record.committed_offset) for e in self.pending}

    def counted(self, log_partition: int = LOG_PARTITION) -> tuple[int, int, int]:
        """Applied, superseded, ignored."""
        counts = self.counts
        assert not counts.quarantined
        return (
            counts.applied[log_partition],
            counts.superseded[log_partition],
            counts.ignored[log_partition],
        )


def outcomes(plan: OffsetPlan) -> dict[int, tuple[str, int]]:
    """Per record offset the outcome, and the record offset that decided it."""
    return {
        told["record_offset"]: (told["outcome"], told["outcome_record_offset"])
        for told in plan.history.to_pylist()
    }


def only_change(plan: OffsetPlan) -> Row:
    (change,) = plan.changes.to_pylist()
    change_row: Row = change
    return change_row


@both
def test_nothing_changes_nothing(semantics: Semantics) -> None:
    plan = Tables(semantics).apply()

    assert plan.changes.equals(OFFSET_CHANGE_SCHEMA.empty_table())
    assert plan.history.equals(HISTORY_SCHEMA.empty_table())
    assert (plan.pending, plan.unwaiting) == ([], set())


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
    assert {c["partition"]: c["position"] for c in plan.changes.to_pylist()} == {0: 12, 1: 14}
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
    assert plain == {**expected, "position": 3, "record_offset": 3, "producer_id": None}
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

    assert only_change(plan)["position"] == 6
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

    assert only_change(plan)["position"] == 3
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

    assert tables.pending == before
    assert before == [
        PendingOffset(
            log_partition=LOG_PARTITION,
            key=KEY,
            record=CommittedOffset(
                committed_offset=3,
                leader_epoch=5,
                metadata="m",
                commit_timestamp_ms=NOW_MS - 1,
                record_offset=3,
                producer_id=9,
                producer_epoch=2,
            ),
            record_timestamp_ms=NOW_MS + 3,
        )
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

    assert bool(tables.pending) is still_waits
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
    assert second.unwaiting == {(LOG_PARTITION, "g")}
    assert tables.committed() == {KEY: 3, OTHER: 4}
    # Two markers and two commits took part; one commit was superseded, one dropped.
    assert tables.counted() == (4, 1, 1)


def test_a_cleared_offset_is_told_with_what_cleared_it() -> None:
    tables = Tables(COORDINATOR)
    tables.apply(commit(1, 1, producer_id=7), commit(2, 2, producer_id=8, key=OTHER))
    plan = tables.apply(commit(3, None), marker(4, 7))

    assert outcomes(plan) == {1: ("cleared", 3), 3: ("committed", 3)}
    assert plan.unwaiting == {(LOG_PARTITION, "g")}
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


MICRO_BATCHES = [
    [commit(1, 1), commit(2, 2, producer_id=7), commit(3, 3, producer_id=8), commit(4, 4)],
    [commit(5, 5, producer_id=7), marker(6, 9), commit(7, None), commit(8, 8, key=OTHER)],
    [marker(9, 8), marker(10, 7, ABORT), commit(11, 11, producer_id=7), commit(12, 12)],
    [commit(13, 13, producer_id=7, key=OTHER), commit(14, None, producer_id=7), marker(15, 7)],
]


@both
def test_every_record_is_counted_once(semantics: Semantics) -> None:
    """Read = applied + superseded + ignored + quarantined + pending, after every micro-batch."""
    tables = Tables(semantics)
    read = 0
    for rows in MICRO_BATCHES:
        tables.apply(*rows)
        read += len(rows)
        assert sum(tables.counted()) + len(tables.pending) == read


@both
def test_every_offset_record_has_one_outcome(semantics: Semantics) -> None:
    tables = Tables(semantics)
    told = [
        record_offset
        for rows in MICRO_BATCHES
        for record_offset in tables.apply(*rows).history["record_offset"].to_pylist()
    ]
    waiting = [entry.record.record_offset for entry in tables.pending]
    offset_rows = [
        row["record_offset"]
        for rows in MICRO_BATCHES
        for row in rows
        if row["row_kind"] == "offset"
    ]

    assert sorted(told + waiting) == offset_rows


@both
def test_planning_a_micro_batch_again_changes_nothing(semantics: Semantics) -> None:
    """After a crash behind the MERGE the plan is made again from the pinned `pending_offsets`."""
    tables = Tables(semantics)
    for rows in MICRO_BATCHES:
        again = plan_offsets(table_of(rows), tables.pending, semantics, RecordCounts())
        plan = tables.apply(*rows)
        after = dict(tables.offsets)
        assert again.changes.equals(plan.changes)
        assert again.pending == plan.pending

        tables.merge(again)
        assert tables.offsets == after


@both
def test_one_micro_batch_or_many_end_alike(semantics: Semantics) -> None:
    many, one = Tables(semantics), Tables(semantics)
    for rows in MICRO_BATCHES:
        many.apply(*rows)
    one.apply(*(row for rows in MICRO_BATCHES for row in rows))

    assert many.committed() == one.committed()
    assert many.waiting() == one.waiting()


@both
def test_history_is_made_on_request(semantics: Semantics) -> None:
    rows = table_of([commit(1, 1), commit(2, 2, producer_id=9, key=OTHER), marker(3, 9)])
    plan = plan_offsets(rows, [], semantics, RecordCounts(), with_history=False)

    assert plan.history.equals(HISTORY_SCHEMA.empty_table())
    assert plan.changes.num_rows == 2
