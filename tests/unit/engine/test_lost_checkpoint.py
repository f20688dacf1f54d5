"""A query killed between its appends, whose checkpoint is lost, and killed once more."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator_state.replay.offsets import OffsetKey
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_EVENTS, OFFSET_COMMITS
from tests.support.logs.log_rows import commit, progress_row, table_of
from tests.support.tables.every_table import create
from tests.support.tables.tables_folder import Crash, start_apply


class Runs:
    """Starts of `run` on one folder, each of which applies one micro-batch of one commit."""

    def __init__(self, folder: Path) -> None:
        self.tables = str(folder)
        create(self.tables)

    def start(self, record_offset: int, batch_id: int, query_id: str) -> None:
        self._apply(record_offset, batch_id, query_id, "")

    def start_and_die(self, record_offset: int, batch_id: int, query_id: str, table: str) -> None:
        """Killed behind the table of this name."""
        with pytest.raises(Crash):
            self._apply(record_offset, batch_id, query_id, table)

    def _apply(self, record_offset: int, batch_id: int, query_id: str, fault: str) -> None:
        report = progress_row(record_offset, record_offset + 1)
        row = commit(record_offset, record_offset, key=OffsetKey("g", "t", 0))
        start_apply(self.tables, fault=fault).apply(table_of([row, report]), batch_id, query_id)

    @property
    def history(self) -> list[int]:
        return sorted(
            TableReader(self.tables).read(OFFSET_COMMITS.name)["record_offset"].to_pylist()
        )


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """The first query has finished two micro-batches, and half a third one."""
    runs = Runs(tmp_path / "tables")
    runs.start(0, 0, "first")
    runs.start(1, 1, "first")
    runs.start_and_die(2, 2, "first", OFFSET_COMMITS.name)
    return runs


@pytest.mark.parametrize("table", [OFFSET_COMMITS.name, GROUP_EVENTS.name])
def test_the_first_micro_batch_of_a_new_checkpoint_may_be_killed_too(
    runs: Runs, table: str
) -> None:
    runs.start_and_die(2, 0, "second", table)
    runs.start(2, 0, "second")
    runs.start(3, 1, "second")
    assert runs.history == [0, 1, 2, 3]


def test_and_its_checkpoint_may_be_lost_as_well(runs: Runs) -> None:
    runs.start_and_die(2, 0, "second", OFFSET_COMMITS.name)
    runs.start_and_die(2, 0, "third", OFFSET_COMMITS.name)
    runs.start(2, 0, "third")
    assert runs.history == [0, 1, 2]


def test_an_older_checkpoint_may_come_back(runs: Runs) -> None:
    runs.start_and_die(2, 0, "second", OFFSET_COMMITS.name)
    runs.start(2, 2, "first")
    assert runs.history == [0, 1, 2]
