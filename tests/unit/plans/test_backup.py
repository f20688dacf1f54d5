"""Backups, the comparison of tables with a file, and the files."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from shutil import copytree

import pytest

from coordinator_state.replay.offsets import OffsetKey
from streaming.errors import ConfigurationError
from streaming.plans.backup import backup, plan_difference
from streaming.plans.plan_file import plan_text, read_plan, write_plan
from streaming.tables.reader import TableReader
from tests.support.tables.planned_tables import offset, sample
from tests.support.tables.tables_folder import apply_micro_batch, create_tables, write_rows

NOW = datetime.now(timezone.utc)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> TableReader:
    tables = create_tables(tmp_path_factory.mktemp("tables"))
    apply_micro_batch(
        tables,
        progress=[{}],
        groups=[
            *({"group_id": group} for group in ("a", "line\nfeed", "")),
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
        "Not in the file: group 'line\nfeed', its id has a line feed",
    ]


def test_a_topic_that_was_deleted_since_is_left_out(reader: TableReader, tmp_path: Path) -> None:
    tables = str(copytree(reader.tables, tmp_path / "tables"))
    write_rows(tables, "log_offsets", [sample(1, NOW, None, None, state="gone")])
    assert OffsetKey("a", "orders", 1) not in backup(reader, TableReader(tables)).offsets


def test_a_plan_is_compared_by_its_own_partitions_and_a_backup_with_the_cluster(
    reader: TableReader,
) -> None:
    difference = plan_difference(reader, {OffsetKey("a", "orders", 0): 7}, "a")
    assert difference.is_equal
    assert difference.summary == "equal: 1 equal, 0 differs, 0 missing, 0 extra"
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


# --- plan files: their text, and that no other file is lost


@pytest.mark.parametrize("group", ["a", 'q"uo,te', " space ", "\x1b[31m\r", "größe", "#", "'"])
def test_a_file_is_read_as_it_was_written(tmp_path: Path, group: str) -> None:
    file = str(tmp_path / "plan.csv")
    offsets = {OffsetKey(group, "orders", 0): 7, OffsetKey("b", "orders", 0): 8}
    write_plan(file, plan_text(offsets, with_groups=True))
    assert read_plan(file) == offsets


def test_a_file_of_one_group_names_none(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    offsets = {OffsetKey("a", "orders", 1): 5, OffsetKey("a", "orders", 0): 7}
    write_plan(str(file), plan_text(offsets, with_groups=False))
    assert file.read_bytes() == b"orders,0,7\norders,1,5\n"
    assert read_plan(str(file), "a") == offsets


@pytest.mark.parametrize(
    ("text", "group", "message"),
    [
        ("orders,0\n", None, r"line 1 is not \[GROUP,\]TOPIC,PARTITION,OFFSET"),
        ("a,orders,0,1\n\na,orders,x,1\n", None, "line 3 is not"),
        ('a,"orders,0,1\n', None, "line 1 is not"),
        ("a,b,orders,0,1\n", None, "line 1 is not"),
        ("orders,0,1\n", None, "line 1 names no group: pass --group"),
        ("orders,-1,5\n", "a", "line 1 is not"),
        ("orders,0,-5\n", "a", "line 1 is not"),
        (",0,5\n", "a", "line 1 is not"),
        ("orders,1_0,5\n", "a", "line 1 is not"),
        (f"orders,{2**31},5\n", "a", "line 1 is not"),
        (f"orders,0,{2**63}\n", "a", "line 1 is not"),
        ("orders,0,5\norders,0,9\n", "a", "line 2 has a partition that an earlier line has"),
    ],
)
def test_another_file_is_refused(
    tmp_path: Path, text: str, group: str | None, message: str
) -> None:
    file = tmp_path / "plan.csv"
    with pytest.raises(ConfigurationError, match="cannot read the plan file"):
        read_plan(str(file), group)
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        read_plan(str(file), group)


def test_of_a_file_with_groups_those_of_one_are_read(tmp_path: Path) -> None:
    """Spreadsheets write a byte order mark."""
    file = tmp_path / "plan.csv"
    file.write_bytes("\ufeffa,orders,0,7\r\nb,orders,0,8\n".encode())
    assert read_plan(str(file), "a") == {OffsetKey("a", "orders", 0): 7}


def test_another_file_is_never_lost(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    write_plan(str(file), "old\n")
    write_plan(str(file), "old\n")
    with pytest.raises(ConfigurationError, match="exists with different content"):
        write_plan(str(file), "new\n")
    assert file.read_text() == "old\n"
    write_plan(str(file), "new\n", overwrite=True)
    assert file.read_text() == "new\n"
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(ConfigurationError, match="cannot write the plan file"):
        write_plan(str(tmp_path / "none" / "plan.csv"), "new\n")
