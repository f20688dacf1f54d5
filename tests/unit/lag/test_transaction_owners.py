"""Open transactions: where they begin in the log, and the application behind them.

The rule in Python and the view in SQL agree.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from streaming.lag.open_transactions import open_transactions, with_owners
from streaming.tables.reader import TableReader
from streaming.tables.schemas import PENDING_OFFSETS, STATE_CURRENT, STATE_LOADING, STATE_WAITING
from streaming.views.coordinator_tables import CoordinatorTables
from tests.support.tables.explained_incidents import PRODUCER_ID, healthy
from tests.support.tables.incident_tables import STEP_S
from tests.support.tables.sample_rows import sample
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables

NOW = datetime(2026, 11, 26, 12, tzinfo=timezone.utc)
VERSION = 1
"""The version of `load_progress` in which the rows are, written at `NOW`."""


TWO_PHASE_COMMIT = {"timeout_ms": 2**31 - 1, "abort_timestamp": None}
OWNER_COLUMNS = ("abort_timestamp", "is_marker_lost", "is_two_phase_commit")


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def transaction(state: str, *, began: float, updated: float, **row: Any) -> Row:
    return {
        **{"transactional_id": "payments", "producer_id": 7, "producer_epoch": 0},
        **{"timeout_ms": 60_000, "state": state, "topic_partitions": []},
        **{"start_timestamp": ago(began), "last_update_timestamp": ago(updated)},
        "abort_timestamp": ago(began - 60) if state == "Ongoing" else None,
        **{"client_transaction_version": 2, "record_offset": 3, **row},
    }


def tables(
    in_folder: Path,
    *transactions: Row,
    committed: float = 300,
    load_state: str | None = STATE_CURRENT,
    progress: Row | None = None,
    of_topic: Row | None = None,
) -> str:
    """Tables with an offset that producer 7 committed some seconds ago."""
    folder = create_tables(in_folder / "tables")
    at = {"commit_timestamp": ago(committed), "record_timestamp": ago(committed)}
    topic_progress = {"log_topic": "__transaction_state", "state": load_state, "updated_at": NOW}
    topic_progress |= of_topic or {}
    apply_micro_batch(
        folder,
        progress=[{"updated_at": NOW, **(progress or {})}],
        groups=[{"group_id": "g", "member_count": 1, "state": "Stable"}],
        pending_offsets=[{"group_id": "g", "topic": "t", "partition": p, **at} for p in (0, 1)],
        transactions=list(transactions),
        topic_progress=[] if load_state is None else [topic_progress],
    )
    return folder


Owner = tuple[str | None, str | None, datetime | None, bool | None, bool | None]
UNKNOWN: Owner = (None, None, None, None, None)


def ongoing(began: float, **row: Any) -> Row:
    return transaction("Ongoing", began=began, updated=began, **row)


def complete(updated: float) -> Row:
    return transaction("CompleteCommit", began=301, updated=updated)


@pytest.mark.parametrize(
    ("transactions", "committed", "expected"),
    [
        ([ongoing(301)], 300, ("payments", "Ongoing", ago(241), False)),
        (
            [transaction("PrepareCommit", began=301, updated=2)],
            *(300, ("payments", "PrepareCommit", None, False)),
        ),
        # The coordinator has ended it, and this offset has no marker.
        ([complete(200)], 300, ("payments", "CompleteCommit", None, True)),
        # Its marker may come with the next micro-batch.
        ([complete(59)], 300, ("payments", "CompleteCommit", None, False)),
        # The ongoing transaction began after the offset was committed.
        ([ongoing(100)], 300, ("payments", "Ongoing", None, True)),
        # The transactional id has expired, or has another producer id.
        ([], 300, (None, None, None, True)),
        ([ongoing(9, producer_id=8)], 300, (None, None, None, True)),
        ([], 59, (None, None, None, False)),
    ],
)
def test_an_owner(
    tmp_path: Path, transactions: list[Row], committed: float, expected: tuple[Any, ...]
) -> None:
    folder = tables(tmp_path, *transactions, committed=committed)
    assert owners(folder) == {(*expected, False)}


@pytest.mark.parametrize("load_state", [None, STATE_LOADING, STATE_WAITING])
def test_an_owner_is_unknown_unless_the_topic_is_loaded(
    tmp_path: Path, load_state: str | None
) -> None:
    assert owners(tables(tmp_path, complete(200), load_state=load_state)) == {UNKNOWN}


@pytest.mark.parametrize(
    "unread",
    [
        {"of_topic": {"high_watermark": 9}},
        {"of_topic": {"records_quarantined": 1}},
        {"progress": {"high_watermark": 9}},
        {"progress": {"state": STATE_LOADING}},
    ],
)
def test_a_marker_may_be_unread(tmp_path: Path, unread: dict[str, Any]) -> None:
    folder = tables(tmp_path, complete(200), **unread)
    assert owners(folder) == {("payments", "CompleteCommit", None, None, False)}


def test_the_newest_row_of_a_producer_counts(tmp_path: Path) -> None:
    """The other one is an orphan of a log partition before the topic was expanded."""
    orphan = transaction("CompleteCommit", began=901, updated=900, log_partition=1)
    for rows in ([orphan, ongoing(301)], [ongoing(301), orphan]):
        folder = tables(tmp_path / str(rows.index(orphan)), *rows)
        assert owners(folder) == {("payments", "Ongoing", ago(241), False, False)}


def test_a_hanging_transaction_has_an_owner(tmp_path: Path) -> None:
    folder = tables(tmp_path, ongoing(901), committed=901)
    (row,) = CoordinatorTables(folder, as_of=VERSION).hanging_transactions()
    assert (row.transactional_id, row.offsets, row.is_marker_lost) == ("payments", 2, False)


@pytest.mark.parametrize(
    ("row", "hanging"),
    [
        (transaction("Ongoing", began=901, updated=901, **TWO_PHASE_COMMIT), []),
        # Its application has decided, and the markers are late.
        (transaction("PrepareCommit", began=901, updated=2, **TWO_PHASE_COMMIT), [False]),
        # Its coordinator has ended it, and this offset has no marker.
        (transaction("CompleteCommit", began=901, updated=200, **TWO_PHASE_COMMIT), [True]),
    ],
)
def test_an_ongoing_two_phase_commit_does_not_hang(
    tmp_path: Path, row: Row, hanging: list[bool]
) -> None:
    """Only its application ends it, maybe days after it has prepared it (KIP-939)."""
    folder = tables(tmp_path, row, committed=901)
    is_two_phase_commit = row["state"] == "Ongoing"
    (owner,) = owners(folder)
    assert owner == ("payments", row["state"], None, hanging == [True], is_two_phase_commit)
    views = CoordinatorTables(folder, as_of=VERSION)
    assert [each.is_marker_lost for each in views.hanging_transactions()] == hanging
    ((open_transaction, _),) = open_transactions(TableReader(folder, as_of=VERSION))
    expected_id = "payments" if is_two_phase_commit else None
    assert open_transaction.two_phase_commit_id == expected_id


PLACE = [{"topic": "t", "partition": 0}]
HUNG = transaction("Ongoing", began=3_700, updated=3_700, topic_partitions=PLACE)
PREPARED = HUNG | TWO_PHASE_COMMIT | {"transactional_id": "flink-7", "producer_id": 107}
LATER = {"start_timestamp": ago(120), "last_update_timestamp": ago(120)}


@pytest.mark.parametrize(
    ("transactions", "status"),
    [
        ([PREPARED], "PENDING"),
        ([HUNG], "HANGING_TRANSACTION"),
        # A later transaction holds nothing.
        ([HUNG, PREPARED | LATER], "HANGING_TRANSACTION"),
        # The coordinator has forgotten the transaction that hangs.
        ([PREPARED | LATER], "HANGING_TRANSACTION"),
        # Either of them may hold.
        ([HUNG, PREPARED], "HANGING_TRANSACTION"),
        ([PREPARED, HUNG | LATER], "PENDING"),
        ([PREPARED, HUNG | {"topic_partitions": []}], "PENDING"),
    ],
)
def test_a_two_phase_commit_in_the_log_does_not_hang(
    tmp_path: Path, transactions: list[Row], status: str
) -> None:
    """A group has read up to a transaction that has been open for an hour in its topic."""
    lag = held_lag(tmp_path, transactions)
    assert lag.status == status, lag.reason
    assert ("prepared or open (2PC)" in lag.reason) == (status == "PENDING")


def test_a_two_phase_commit_in_the_log_holds_no_commits(tmp_path: Path) -> None:
    """The transaction with the commits hangs, whatever holds the records of the topic."""
    commits = {"group_id": "g", "topic": "t", "producer_id": 9, "commit_timestamp": ago(3_600)}
    lag = held_lag(tmp_path, [PREPARED], commits)
    assert lag.status == "HANGING_TRANSACTION", lag.reason
    assert "2PC" not in lag.reason


def held_lag(in_folder: Path, transactions: list[Row], *pending_offsets: Row) -> Any:
    """The lag of a group that has read up to a hold that began an hour ago."""
    folder = create_tables(in_folder / "tables")
    samples = [
        sample(at, end, "t", last_stable_offset=50)
        for at, end in ((ago(4_000), 50), (ago(3_600), 60), (NOW, 90))
    ]
    committed = {"committed_offset": 50, "commit_timestamp": ago(4_000)}
    apply_micro_batch(
        folder,
        progress=[{"updated_at": NOW}],
        groups=[{"group_id": "g", "member_count": 1, "state": "Stable"}],
        group_offsets=[{"group_id": "g", "topic": "t", "partition": 0, **committed}],
        pending_offsets=list(pending_offsets),
        log_offsets=[*samples, sample(NOW, 0, "__consumer_offsets")],
        transactions=transactions,
        topic_progress=[
            {"log_topic": "__transaction_state", "state": STATE_CURRENT, "updated_at": NOW}
        ],
    )
    (lag,) = CoordinatorTables(folder, as_of=VERSION).partition_status()
    return lag


def owners(folder: str) -> set[Owner]:
    """The owner by the view in SQL, by `show pending`, and in the facts of `explain`."""
    names = ("transactional_id", "transaction_state", *OWNER_COLUMNS)
    (row,) = CoordinatorTables(folder, as_of=VERSION).open_transactions()
    reader = TableReader(folder, as_of=VERSION)
    ((transaction, _),) = open_transactions(reader)
    owner = transaction.owner
    pending = with_owners(reader, reader.read(PENDING_OFFSETS.name)).select(names)
    return {
        tuple(getattr(row, name) for name in names),
        UNKNOWN
        if owner is None
        else tuple(getattr(owner, "state" if "state" in name else name) for name in names),
        *(tuple(pending_row.values()) for pending_row in pending.to_pylist()),
    }


def test_a_transaction_begins_at_a_commit_that_is_superseded(tmp_path: Path) -> None:
    incident = healthy(producer_id=PRODUCER_ID)
    assert open_transactions(TableReader(incident.tables(tmp_path / "ended"))) == []
    incident.ends_with = None
    begins_at = incident.cluster.next_offset
    begins = incident.now + timedelta(seconds=STEP_S)
    incident.run(seconds=15)

    ((transaction, rows),) = open_transactions(TableReader(incident.tables(tmp_path / "open")))
    assert (transaction.first_record_offset, transaction.since) == (begins_at, begins)
    assert min(row["record_offset"] for row in rows) > begins_at
    assert (transaction.producer_id, transaction.offsets) == (PRODUCER_ID, 4)
