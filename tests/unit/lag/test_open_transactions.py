"""Open transactions: where they begin in the log, and who has them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from streaming.lag.open_transactions import open_transactions
from streaming.tables.reader import TableReader
from tests.support.tables.explained_incidents import caught_up, healthy
from tests.support.tables.incident import PRODUCER, STEP_S


def test_a_transaction_begins_at_a_commit_that_is_superseded(tmp_path: Path) -> None:
    incident = healthy(producer=PRODUCER)
    incident.ends_with = None
    begins_at = incident.coordinator.log.next_offset
    begins = incident.now + timedelta(seconds=STEP_S)
    incident.run(seconds=15)

    reader = TableReader(incident.tables(tmp_path / "tables"))
    ((transaction, rows),) = open_transactions(reader)

    assert transaction.first_record_offset == begins_at
    assert transaction.since == begins
    assert min(row["record_offset"] for row in rows) > begins_at
    assert (transaction.producer_id, transaction.offsets) == (PRODUCER.producer_id, 4)


def test_ended_transactions_are_not_open(tmp_path: Path) -> None:
    incident = healthy(producer=PRODUCER)
    assert open_transactions(TableReader(incident.tables(tmp_path / "tables"))) == []


def test_plain_commits_are_no_transaction(tmp_path: Path) -> None:
    assert open_transactions(TableReader(caught_up().tables(tmp_path / "tables"))) == []
