"""When a base is made, and by whom."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from coordinator_state.insight.group_status import StatusRules
from streaming.errors import TablesUnavailable, WriterFenced
from streaming.lag.freshness import Freshness
from streaming.tables import delta, maintenance
from streaming.tables.base_maintenance import maintain_bases, make_base
from streaming.tables.bases import bases_of
from streaming.tables.maintenance import tidy_up
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS, OFFSET_COMMITS, STATE_WAITING, Table
from streaming.tables.writer_epoch import WriterEpoch
from tests.support.tables.every_table import apply_next, create
from tests.support.tables.tables_folder import start_apply

WEEK = timedelta(days=7)
OTHER = 11
"""A log partition without a leader at first."""


class Tables:
    """Micro-batches of one writer."""

    def __init__(self, tables: str) -> None:
        self.tables = tables
        create(tables)
        self.apply = start_apply(tables)
        apply_next(self.apply)

    def make_base(self) -> int:
        """Make a base if one is due; return the number of bases."""
        make_base(self.apply.writer.epoch, TableReader(self.tables))
        return len(bases_of(self.tables))


@pytest.fixture(name="tables")
def _tables(tmp_path: Path) -> Tables:
    return Tables(str(tmp_path / "tables"))


def test_a_base_is_due_after_the_clock_was_set_back(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = datetime.now(timezone.utc) + timedelta(days=1)
    tables.apply.progress.write(tables.apply.writer, now=ahead)
    assert tables.make_base() == 1
    apply_next(tables.apply)
    assert TableReader(tables.tables).written_at - ahead < timedelta(seconds=1)
    assert tables.make_base() == 1
    monkeypatch.setattr("streaming.tables.base_maintenance.MOST_AGE", timedelta(milliseconds=1))
    assert tables.make_base() == 2


def test_a_stop_is_noticed_after_the_clock_was_set_back(tables: Tables) -> None:
    before = datetime.now(timezone.utc)
    ahead = before + timedelta(days=1)
    tables.apply.progress.write(tables.apply.writer, now=ahead)
    later = before + timedelta(hours=1)
    fresh = Freshness.of(TableReader(tables.tables), later)
    assert fresh.loaded_at is not None
    assert timedelta(0) <= fresh.loaded_at - before < timedelta(minutes=1)
    assert "Nothing written since" in str(fresh.notice(StatusRules()))


def test_a_base_is_due_when_a_log_partition_gets_its_first_leader(tables: Tables) -> None:
    progress = tables.apply.progress
    progress.set_leaderless([OTHER])
    progress.write(tables.apply.writer)
    assert tables.make_base() == 1
    progress.set_leaderless([])
    progress.write(tables.apply.writer)
    assert tables.make_base() == 1
    progress.set_leaderless([OTHER])
    progress.rows[OTHER].next_offset = 5
    progress.set_leaderless([])
    progress.rows[OTHER].state = "current"
    progress.write(tables.apply.writer)
    assert tables.make_base() == 2


def test_a_log_partition_without_a_leader_stays_waiting_in_rebuilt_tables(tables: Tables) -> None:
    progress = tables.apply.progress
    progress.set_leaderless([OTHER])
    progress.write(tables.apply.writer)
    tables.make_base()
    newest = TableReader(tables.tables)
    rebuilt = newest.rebuilt(newest.moment, newest.rebuilding(newest.moment, newest.moment))
    assert rebuilt is not None
    assert newest.load_states[OTHER].state == STATE_WAITING
    states = {one: load.state for one, load in rebuilt.load_states.items()}
    assert states == {one: load.state for one, load in newest.load_states.items()}


def test_a_writer_that_was_replaced_makes_and_deletes_no_base(tables: Tables) -> None:
    old = tables.apply.writer.epoch
    reader = TableReader(tables.tables)
    start_apply(tables.tables)
    with pytest.raises(WriterFenced):
        make_base(old, reader)
    assert not any(base.is_complete for base in bases_of(tables.tables))
    make_base(WriterEpoch.current(tables.tables), TableReader(tables.tables))
    complete = [base for base in bases_of(tables.tables) if base.is_complete]
    tomorrow = datetime.now(timezone.utc) + 9 * timedelta(days=1)
    with pytest.raises(WriterFenced):
        maintain_bases(old, WEEK, now=tomorrow)
    assert [base for base in bases_of(tables.tables) if base.is_complete] == complete != []


def test_a_table_that_fails_does_not_stop_the_others(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact, compacted = maintenance._compact_tiny, []

    def fails(epoch: WriterEpoch, table: Table) -> None:
        if table is OFFSET_COMMITS:
            raise TablesUnavailable("offset_commits is damaged")
        compact(epoch, table)
        compacted.append(table.name)

    monkeypatch.setattr(maintenance, "_compact_tiny", fails)
    with pytest.raises(TablesUnavailable, match=r"^offset_commits is damaged$"):
        tidy_up(tables.apply.writer.epoch)
    assert compacted == [
        *("group_events", "group_records", "transaction_events"),
        *("log_offsets", "external_offsets"),
    ]
    assert delta.current_version(tables.tables, LOAD_PROGRESS) > 0
