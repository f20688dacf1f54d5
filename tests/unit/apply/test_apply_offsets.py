"""The rows and counts of a micro-batch's offsets, their history and hung transactions.

`tests/property/test_apply_plan.py` compares offsets, pending offsets and outcomes after any log
with a replay record by record.
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.apply.committed import COMMITTED_SCHEMA, committed_after
from coordinator_state.apply.group_placement import partitions_for
from coordinator_state.apply.rows import OFFSET_CHANGE_SCHEMA
from coordinator_state.records.record_types import NO_PRODUCER_ID
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, OffsetReplay, Semantics
from coordinator_state.replay.partitioner import partition_for
from tests.support.logs.log_rows import (
    ABORT,
    COMMIT,
    KEY,
    LEADER_CHANGE,
    LOG_PARTITION,
    NOW_MS,
    Row,
    commit,
    marker,
    table_of,
)
from tests.support.tables.plan_tables import PlanTables

COORDINATOR = Semantics.COORDINATOR
OTHER = OffsetKey("g", "t", 1)
COLUMNS: Row = {"leader_epoch": 5, "expire_timestamp_ms": NOW_MS + 9, "topic_id": "id"}
VALUES: Row = {
    **{"committed_offset": 100, "metadata": "m", "commit_timestamp_ms": NOW_MS - 1},
    **COLUMNS,
}
both = pytest.mark.parametrize("semantics", list(Semantics))


def counted(tables: PlanTables) -> list[int]:
    """The number of applied, superseded and ignored records."""
    counts = tables.counts
    assert not counts.quarantined
    return [
        counts_of.get(LOG_PARTITION, 0)
        for counts_of in (counts.applied, counts.superseded, counts.ignored)
    ]


@both
@pytest.mark.parametrize(
    ("micro_batches", "expected"),
    [
        # Of the plain records of a key, the last one is applied.
        (
            [
                [
                    *(commit(12, 3), commit(10, 1), commit(11, None)),
                    *(commit(13, 9, key=OTHER), commit(14, None, key=OTHER)),
                ]
            ],
            [2, 3, 0],
        ),
        # Two markers and two commits take part; one commit is superseded, one is aborted.
        (
            [
                [commit(1, 1, producer_id=7), commit(2, 2, producer_id=8)],
                [
                    *(commit(3, 3, producer_id=7), commit(4, 4, producer_id=7, key=OTHER)),
                    *(marker(5, 8, ABORT), marker(6, 7)),
                ],
            ],
            [4, 1, 1],
        ),
    ],
    ids=["plain", "transactional"],
)
def test_records_are_counted_by_what_became_of_them(
    semantics: Semantics, micro_batches: list[list[Row]], expected: list[int]
) -> None:
    tables = PlanTables(semantics)
    for rows in micro_batches:
        tables.apply(table_of(rows))
    assert counted(tables) == expected


@both
def test_a_pending_offset_is_carried_on_until_its_marker(semantics: Semantics) -> None:
    tables = PlanTables(semantics)
    tables.apply(table_of([commit(3, 100, producer_id=9, **COLUMNS)]))
    before = tables.pending
    tables.apply(table_of([commit(4, 4, key=OTHER)]))
    tables.apply(table_of([]))

    assert tables.pending.equals(before)
    assert before.to_pylist() == [
        {
            **{"log_partition": LOG_PARTITION, **KEY._asdict(), **VALUES},
            **{"producer_id": 9, "producer_epoch": 2},
            **{"record_offset": 3, "record_timestamp_ms": NOW_MS + 3},
            **{"client_id": None, "client_host": None},
        }
    ]


@both
@given(
    drawn=st.lists(
        st.tuples(
            st.sampled_from(["commit", "tombstone", "marker"]),
            st.sampled_from([(NO_PRODUCER_ID, False), (7, True), (8, True), (8, False)]),
            st.sampled_from([KEY, OTHER]),
            st.sampled_from([COMMIT, ABORT, LEADER_CHANGE]),
        ),
        max_size=12,
    ),
    cut=st.integers(0, 12),
)
def test_transactions_and_tombstones_of_two_keys_equal_a_replay(
    semantics: Semantics, drawn: list[tuple[str, tuple[int, bool], OffsetKey, int]], cut: int
) -> None:
    """The logs are small, so that most records meet another one of their key or producer.

    A producer with an id but without the attribute is idempotent, and not transactional.
    """
    replay, rows, outcomes = OffsetReplay(semantics), list[Row](), dict[int, tuple[str, int]]()
    for at, (kind, (producer_id, has_attribute), key, control_type) in enumerate(drawn):
        is_transactional = replay.is_transactional(producer_id, has_attribute)
        columns: dict[str, Any] = {
            "key": key,
            "producer_id": producer_id,
            "is_transactional": has_attribute,
        }
        if kind == "marker":
            rows.append(marker(at, producer_id, control_type))
            resolved = replay.replay_end_transaction_marker(producer_id, control_type)
        elif kind == "tombstone":
            rows.append(commit(at, None, **columns))
            resolved = replay.replay_tombstone(
                key, producer_id=producer_id, is_transactional=is_transactional
            )
        else:
            rows.append(commit(at, at, **columns))
            value = CommittedOffset.from_row({**rows[-1], "producer_id": producer_id})
            resolved = replay.replay_commit(key, value, is_transactional=is_transactional)
        if kind == "tombstone" or (kind == "commit" and not is_transactional):
            outcomes[at] = "committed", at
        outcomes |= {c.record.record_offset: (c.outcome.value, at) for c in resolved}
    tables = PlanTables(semantics)
    for part in (rows[:cut], rows[cut:]):
        tables.apply(table_of(part))
    assert {key: row["record_offset"] for (_, key), row in tables.offsets.items()} == {
        key: offset.record_offset for key, offset in replay.offsets.items()
    }
    assert outcomes == {
        at: (row["outcome"], row["outcome_record_offset"])
        for (_, at), row in tables.history.items()
    }
    assert sorted(tables.pending["record_offset"].to_pylist()) == sorted(
        offset.record_offset for pending in replay.pending.values() for offset in pending.values()
    )
    assert sum(counted(tables)) + tables.pending.num_rows == len(rows)


def test_a_cleared_offset_is_told_with_what_cleared_it() -> None:
    tables = PlanTables(COORDINATOR)
    rows = [commit(1, 100, producer_id=7, **COLUMNS), commit(2, 2, producer_id=8, key=OTHER)]
    tables.apply(table_of(rows))
    tables.apply(table_of([commit(3, None), marker(4, 7)]))

    assert tables.history[LOG_PARTITION, 1] == {
        **{"log_partition": LOG_PARTITION, **KEY._asdict(), **VALUES, "is_tombstone": False},
        **{"record_offset": 1, "record_timestamp_ms": NOW_MS + 1},
        **{"producer_id": 7, "producer_epoch": 2, "outcome": "cleared"},
        **{"outcome_record_offset": 3, "outcome_timestamp_ms": NOW_MS + 3},
    }
    # The marker found nothing left to end.
    assert counted(tables) == [1, 1, 1]


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
    tables.apply(table_of(rows))
    (event,) = tables.events
    assert (event["event"], event["record_offset"], event["producer_id"]) == (
        *("transaction_hung", 4),
        7,
    )
    assert (event["outcome"], event["duration_ms"]) == ("committed", 89_999)
    assert event["record_timestamp_ms"] == late


# --- the committed offsets that stay in memory from one micro-batch to the next


def test_many_micro_batches_leave_few_chunks() -> None:
    choose = random.Random(1)
    committed, expected = COMMITTED_SCHEMA.empty_table(), dict[int, int]()
    assert committed_after(committed, OFFSET_CHANGE_SCHEMA.empty_table()) is committed
    for record_offset in range(0, 1_000, 5):
        changes: list[Row] = [
            {
                **{"log_partition": LOG_PARTITION, "group_id": "g", "topic": "t"},
                **dict.fromkeys(("record_offset", "guard_offset", "committed_offset"), offset),
                **{"partition": partition, "is_tombstone": choose.random() < 0.2},
            }
            for offset, partition in enumerate(choose.sample(range(50), 5), record_offset)
        ]
        rows = pa.Table.from_pylist(changes, schema=OFFSET_CHANGE_SCHEMA)
        committed = committed_after(committed, rows)
        for change in changes:
            expected.pop(change["partition"], None)
            if not change["is_tombstone"]:
                expected[change["partition"]] = change["record_offset"]
        assert committed["record_offset"].num_chunks < 40
    partitions, offsets = (committed[n].to_pylist() for n in ("partition", "record_offset"))
    assert dict(zip(partitions, offsets, strict=True)) == expected
    assert committed.num_rows == len(expected)


# --- the log partitions of many groups

# The hash of the first one is Integer.MIN_VALUE.
_IDS = st.lists(st.text(max_size=5) | st.sampled_from(["polygenelubricants", "", "\u00e9"]))


@given(chunks=st.lists(_IDS, max_size=3), log_partitions=st.integers(1, 100))
def test_many_groups_live_where_each_of_them_lives(
    chunks: list[list[str]], log_partitions: int
) -> None:
    column = pa.chunked_array([["left out", *chunk] for chunk in chunks], pa.string())
    column = pa.chunked_array([chunk[1:] for chunk in column.chunks], pa.string())
    wanted = [partition_for(group_id, log_partitions) for chunk in chunks for group_id in chunk]
    assert partitions_for(column, log_partitions).tolist() == wanted
