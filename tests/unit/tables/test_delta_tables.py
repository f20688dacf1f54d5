"""Writes to Delta tables: what MERGE leaves, what others can read, and what is done once."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from streaming.errors import TablesUnavailable
from streaming.tables import delta
from streaming.tables import writer as writer_module
from streaming.tables.creation import create_tables, properties_of, set_properties
from streaming.tables.schemas import ALL_TABLES, GROUP_OFFSETS, OFFSET_COMMITS
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import WriterEpoch

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)
CHANGES = pa.schema(
    [
        *(field.with_nullable(True) for field in GROUP_OFFSETS.schema),
        pa.field("is_tombstone", pa.bool_()),
        pa.field("position", pa.int64()),
    ]
)


def commit(partition: int, record_offset: int, **more: Any) -> dict[str, Any]:
    values = {"committed_offset": record_offset, "metadata": "", "commit_timestamp": NOW}
    return tombstone(partition, record_offset) | values | {"is_tombstone": False} | more


def tombstone(partition: int, record_offset: int) -> dict[str, Any]:
    return {
        **{"log_partition": 0, "group_id": "g", "topic": "t", "partition": partition},
        **{"record_offset": record_offset, "position": record_offset, "is_tombstone": True},
    }


def history(log_partition: int, record_offset: int) -> dict[str, Any]:
    return {
        **{"log_partition": log_partition, "record_offset": record_offset, "group_id": "g"},
        **{"topic": "t", "partition": 0, "is_tombstone": True, "outcome": "committed"},
        **{"outcome_record_offset": record_offset, "day": NOW.date()},
    }


def writer_of(tables: str) -> Writer:
    epoch = WriterEpoch.take(tables, "test")
    epoch.fence([GROUP_OFFSETS, OFFSET_COMMITS], "test")
    return Writer.of(epoch)


def merge(tables: str, *changes: dict[str, Any]) -> int:
    source = pa.Table.from_pylist(list(changes), schema=CHANGES)
    return writer_of(tables).merge(GROUP_OFFSETS, source, guard="position", deletes="is_tombstone")


@pytest.fixture(params=[False, True], ids=["plain", "with change data feed"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    folder = str(tmp_path / "tables")
    create_tables(folder, {}, change_data_feed=request.param)
    return folder


def test_merge_replaces_takes_away_and_adds(tables: str) -> None:
    merge(tables, *(commit(partition, 10 + partition) for partition in range(5)))
    version = merge(
        tables,
        commit(0, 20),
        tombstone(1, 21),
        commit(2, 5),  # an older one, delivered again
        tombstone(3, 4),
        commit(5, 22),
        tombstone(6, 23),
        {**commit(4, 14, committed_offset=99), "position": 30},
    )
    rows = delta.read(tables, GROUP_OFFSETS, ["partition", "committed_offset"]).to_pylist()
    committed = {row["partition"]: row["committed_offset"] for row in rows}
    assert committed == {0: 20, 2: 12, 3: 13, 4: 99, 5: 22}
    assert version == delta.current_version(tables, GROUP_OFFSETS)


def test_the_feed_tells_of_the_rows_that_changed(tmp_path: Path) -> None:
    tables = str(tmp_path)
    create_tables(tables, {}, change_data_feed=True)
    merge(tables, commit(0, 10), commit(1, 11), commit(2, 12))
    merge(tables, commit(0, 20), tombstone(1, 21))
    opened = DeltaTable(GROUP_OFFSETS.path(tables))
    feed = pa.table(opened.load_cdf(starting_version=opened.version()).read_all()).to_pylist()
    assert sorted((row["_change_type"], row["record_offset"]) for row in feed) == [
        ("delete", 11),
        ("update_postimage", 20),
        ("update_preimage", 10),
    ]


def test_an_append_is_done_once_for_its_number(tables: str) -> None:
    rows = pa.Table.from_pylist([history(0, 1)])
    writer = writer_of(tables)
    set_properties(writer.epoch, OFFSET_COMMITS, {"delta.checkpointInterval": "7"})
    before = delta.current_version(tables, OFFSET_COMMITS)
    number = writer.next_number()
    for _ in range(2):
        assert writer.append(OFFSET_COMMITS, rows, number=number) == before + 1
    assert writer.append(OFFSET_COMMITS, rows) == before + 2
    assert delta.read(tables, OFFSET_COMMITS).num_rows == 2
    assert writer.restore(OFFSET_COMMITS, before + 1) == before + 3
    assert delta.read(tables, OFFSET_COMMITS).num_rows == 1
    assert properties_of(tables, OFFSET_COMMITS)["delta.checkpointInterval"] == "7"


def test_a_commit_that_reported_a_failure_is_not_repeated(
    tables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a store answers too late: the client retries a PUT that was done."""
    rows = pa.Table.from_pylist([history(0, 1)])
    writer = writer_of(tables)

    def failing_once(*arguments: Any, **options: Any) -> None:
        monkeypatch.undo()
        write_deltalake(*arguments, **options)
        raise CommitFailedError("the version exists already")

    monkeypatch.setattr(writer_module, "write_deltalake", failing_once)
    writer.append(OFFSET_COMMITS, rows)
    assert delta.read(tables, OFFSET_COMMITS).num_rows == 1


def test_rows_at_or_past_an_offset_are_deleted_or_lost(tables: str) -> None:
    writer = writer_of(tables)
    for places in ([(0, 5), (1, 9)], [(0, 10), (1, 10), (2, 0)]):
        rows = pa.Table.from_pylist([history(p, record_offset) for p, record_offset in places])
        writer.append(OFFSET_COMMITS, rows)
    before = set(DeltaTable(OFFSET_COMMITS.path(tables)).file_uris())
    writer.delete_from(OFFSET_COMMITS, {0: 6, 1: 10, 2: 0})
    places_left = delta.read(tables, OFFSET_COMMITS, ["log_partition", "record_offset"]).to_pylist()
    assert sorted(tuple(row.values()) for row in places_left) == [(0, 5), (1, 9)]
    # The other files are not rewritten: delta-rs would write strings as views.
    assert set(DeltaTable(OFFSET_COMMITS.path(tables)).file_uris()) < before
    writer.mark_lost(OFFSET_COMMITS, {0: 5})
    writer.delete_from(OFFSET_COMMITS, {0: 0, 1: 0})
    outcomes = delta.read(tables, OFFSET_COMMITS, ["record_offset", "outcome"]).to_pylist()
    assert outcomes == [{"record_offset": 5, "outcome": "lost"}]


def test_tables_have_the_plain_protocol(tmp_path: Path) -> None:
    create_tables(str(tmp_path), {"coordinator_state.cluster_id": "c"})
    for table in ALL_TABLES:
        opened = DeltaTable(table.path(str(tmp_path)))
        protocol = opened.protocol()
        assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2), table.name
        assert opened.metadata().configuration["delta.checkpointInterval"] == "10"
        assert not protocol.reader_features
        assert not protocol.writer_features


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    tables = str(tmp_path)
    create_tables(tables, {})
    writer = writer_of(tables)
    shutil.rmtree(GROUP_OFFSETS.path(tables))
    with pytest.raises(TablesUnavailable, match=r"cannot write .*group_offsets: "):
        writer.overwrite(GROUP_OFFSETS, GROUP_OFFSETS.schema.empty_table())
