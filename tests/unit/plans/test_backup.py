"""Backups, and the comparison of tables with a file."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from coordinator_state.replay.offsets import OffsetKey
from streaming.plans.backup import backup
from streaming.plans.difference import plan_difference
from streaming.tables.reader import TableReader
from tests.support.tables.planned_tables import offset, sample
from tests.support.tables.tables_folder import apply_micro_batch, create_tables, write_rows

NOW = datetime.now(timezone.utc)


@pytest.fixture
def reader(tmp_path: Path) -> TableReader:
    tables = create_tables(tmp_path)
    apply_micro_batch(
        tables,
        progress=[{}],
        groups=[
            {"group_id": "a"},
            {"group_id": "line\nfeed"},
            {"group_id": ""},
            {"group_id": "s", "group_type": "streams"},
            {"group_id": "share", "group_type": "share"},
        ],
        group_offsets=[
            *(offset(group, 0, 7, NOW) for group in ("a", "line\nfeed", "", "s", "deleted")),
            offset("a", 1, 8, NOW),
            offset("a", 0, 9, NOW, topic="gone"),
        ],
    )
    write_rows(tables, "log_offsets", [sample(0, NOW, None, None, topic="gone", state="gone")])
    return TableReader(tables)


def test_a_backup_says_what_is_not_in_it(reader: TableReader) -> None:
    saved = backup(reader)
    assert saved.offsets == {OffsetKey("a", "orders", 0): 7, OffsetKey("a", "orders", 1): 8}
    assert saved.group_ids == ["a"]
    assert sorted(saved.left_out) == [
        "Not in the file: 1 offset of deleted topics: gone",
        "Not in the file: 1 share group (use kafka-share-groups.sh)",
        "Not in the file: 1 streams group (use kafka-streams-groups.sh)",
        "Not in the file: group '', its id is empty",
        "Not in the file: group 'line\\nfeed', its id has a line feed",
    ]


def test_a_topic_that_was_deleted_since_is_left_out(reader: TableReader) -> None:
    past = TableReader(reader.tables)
    gone = [sample(1, NOW, None, None, state="gone")]
    write_rows(reader.tables, "log_offsets", gone)
    assert OffsetKey("a", "orders", 1) not in backup(past, TableReader(reader.tables)).offsets


def test_a_plan_is_compared_by_its_own_partitions(reader: TableReader) -> None:
    difference = plan_difference(reader, {OffsetKey("a", "orders", 0): 7}, "a")
    assert difference.is_equal
    assert difference.summary == "equal: 1 equal, 0 differs, 0 missing, 0 extra"


def test_a_backup_is_compared_with_the_whole_cluster(reader: TableReader) -> None:
    assert plan_difference(reader, backup(reader).offsets).is_equal
    offsets = {OffsetKey("a", "orders", 0): 1, OffsetKey("b", "orders", 0): 2}
    difference = plan_difference(reader, offsets)
    assert not difference.is_equal
    outcomes = {(row.group_id, row.topic, row.partition): row.outcome for row in difference.rows}
    assert outcomes == {
        ("a", "orders", 0): "differs",
        ("a", "orders", 1): "extra",
        ("b", "orders", 0): "missing",
    }
