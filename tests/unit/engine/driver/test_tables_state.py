"""The state before a micro-batch, from the tables: a cut of the log must not show in the rows."""

from __future__ import annotations

from pathlib import Path

from coordinator_state.replay.offsets import OffsetKey, Semantics
from streaming.tables.reader import TableReader
from tests.support.logs.log_rows import ABORT, Row, commit, marker, progress_row, record, table_of
from tests.support.logs.logs import group_value
from tests.support.tables.every_table import create
from tests.support.tables.tables_folder import start_apply


def groups_after(folder: Path, *micro_batches: list[Row]) -> list[Row]:
    """The rows of `groups` by the rules of Kafka 3, after micro-batches of one process each."""
    tables, start = str(folder), 0
    create(tables, semantics=Semantics.SCALA)
    for number, rows in enumerate(micro_batches):
        end = start + len(rows)
        start_apply(tables).apply(table_of([*rows, progress_row(start, end)]), number, "query")
        start = end
    return TableReader(tables).read("groups").to_pylist()


def test_a_deleted_group_with_another_open_transaction_keeps_its_warning(tmp_path: Path) -> None:
    """One of two transactions ends in a later micro-batch, without a record of the group."""
    began = [
        record(0, group_value(["m"])),
        record(1, None),
        commit(2, 1, producer_id=8),
        commit(3, 1, producer_id=9, key=OffsetKey("g", "u", 0)),
    ]
    ended = [marker(4, 9, ABORT)]
    at_once = groups_after(tmp_path / "at once", [*began, *ended])
    (row,) = at_once
    assert row["replay_warning"] == "record offset 1: Unexpected unload of active group g"
    assert groups_after(tmp_path / "cut", began, ended) == at_once
