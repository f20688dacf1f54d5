"""What `offset_commits` says of every offset record, and what is counted."""

from __future__ import annotations

from coordinator_state.apply.collected import collect
from coordinator_state.apply.offsets import apply_offsets
from coordinator_state.apply.rows import HISTORY_SCHEMA, PENDING_OFFSET_ROW
from coordinator_state.replay.offsets import Semantics
from tests.support.logs.log_rows import ABORT, KEY, LOG_PARTITION, NOW_MS, commit, marker, table_of
from tests.support.tables.offset_tables import COORDINATOR, OTHER, Tables, both, outcomes


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
        assert sum(tables.counted()) + tables.pending.num_rows == read


@both
def test_every_offset_record_has_one_outcome(semantics: Semantics) -> None:
    tables = Tables(semantics)
    told = [
        record_offset
        for rows in MICRO_BATCHES
        for record_offset in tables.apply(*rows).history["record_offset"].to_pylist()
    ]
    waiting = tables.pending["record_offset"].to_pylist()
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
        again = apply_offsets(collect(table_of(rows)), tables.pending, semantics, with_history=True)
        plan = tables.apply(*rows)
        after = dict(tables.offsets)
        assert again.changes.equals(plan.changes)
        assert again.pending.equals(plan.pending)

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
    plan = apply_offsets(
        collect(rows), PENDING_OFFSET_ROW.empty_table(), semantics, with_history=False
    )

    assert plan.history.equals(HISTORY_SCHEMA.empty_table())
    assert plan.changes.num_rows == 2
