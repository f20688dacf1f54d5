"""A disk without space under each table, for many starts in a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.errors import TablesUnavailable
from streaming.tables.folder import locked
from streaming.tables.schemas import GROUP_OFFSETS, LOAD_PROGRESS, TABLES, Table
from tests.support.brokers.small_disk import fill, make_room, small_disk
from tests.support.tables.every_table import apply_next, assert_undisturbed, create, micro_batches
from tests.support.tables.tables_folder import start_apply

pytestmark = pytest.mark.long

STARTS = 5
BLOCK_BYTES = 4096


LEFT_BYTES = {"nothing": 0, "some blocks": 2 * BLOCK_BYTES}


@pytest.mark.parametrize(
    ("table", "left_bytes"),
    [
        pytest.param(table, left_bytes, id=f"{table.name}-{name}")
        for index, table in enumerate(TABLES)
        for number, (name, left_bytes) in enumerate(LEFT_BYTES.items())
        # Both for one table of keys and for the table of snapshots; the others take turns.
        if table in (GROUP_OFFSETS, LOAD_PROGRESS) or number == index % 2
    ],
)
def test_each_table_recovers(tmp_path: Path, table: Table, left_bytes: int) -> None:
    """Where some blocks are left, the data may be written and its commit not."""
    tables = str(tmp_path / "tables")
    with small_disk(Path(table.path(tables)), size_mib=8) as disk:
        create(tables)
        apply = start_apply(tables)
        for _ in range(2):
            apply_next(apply)
        fill(disk, left_bytes)
        failures = 0
        for _ in range(STARTS):
            # As the supervisor does it: the query starts again where the tables are.
            try:
                with locked(tables):
                    apply = start_apply(tables)
                    apply_next(apply)
            except TablesUnavailable as error:
                assert "No space left on device" in str(error)
                failures += 1
        assert failures >= STARTS - 2
        make_room(disk)
        with locked(tables):
            apply = start_apply(tables)
        before = micro_batches(tables)
        assert before <= 2 + STARTS - failures
        apply_next(apply)
        apply_next(apply)
        assert_undisturbed(tables)
