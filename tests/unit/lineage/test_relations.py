"""The topics that groups read, from the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streaming.lineage.relations import GroupTopics, Relations
from streaming.tables.reader import TableReader
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables, write_rows


def offset(group: str, topic: str, **fields: Any) -> Row:
    return {"group_id": group, "topic": topic, "partition": 0, "committed_offset": 1, **fields}


def member(group: str, *topics: str) -> Row:
    assignment = [{"topic": topic, "partition": 0} for topic in topics]
    return {"group_id": group, "member_id": "m", "assignment": assignment}


def relations_of(tables: str) -> Relations:
    relations = Relations(tables)
    relations.refresh()
    return relations


def test_a_group_reads_its_committed_and_its_assigned_topics(tmp_path: Path) -> None:
    tables = create_tables(tmp_path)
    apply_micro_batch(
        tables,
        progress=[{}],
        groups=[{"group_id": "both"}, {"group_id": "assigned", "group_type": "streams"}],
        group_offsets=[offset("both", "b"), offset("both", "b", partition=1), offset("none", "x")],
        group_members=[member("both", "a", "b"), member("assigned", "c"), member("idle")],
    )
    groups = relations_of(tables).groups
    assert set(groups) == {"both", "assigned"}
    assert groups["both"] == GroupTopics("both", "classic", ("a", "b"))
    assert groups["assigned"] == GroupTopics("assigned", "streams", ("c",))


def test_a_share_group_reads_its_share_partitions(tmp_path: Path) -> None:
    tables = create_tables(tmp_path)
    state = {"state_epoch": 1, "leader_epoch": 0, "snapshot_epoch": 0, "start_offset": 0}
    share = {**state, "partition": 0, "record_offset": 4, "topic_id": "T", "state_batches": []}
    apply_micro_batch(
        tables,
        progress=[{}],
        groups=[{"group_id": "s", "group_type": "share"}, {"group_id": "c"}],
        group_offsets=[offset("s", "of-an-earlier-group"), offset("c", "c")],
        share_partitions=[
            {**share, "group_id": "s", "topic": "t"},
            {**share, "group_id": "s", "topic": None, "topic_id": "U"},
            {**share, "group_id": "gone", "topic": "t"},
        ],
    )
    assert relations_of(tables).groups == {
        "s": GroupTopics("s", "share", ("t",)),
        "c": GroupTopics("c", "classic", ("c",)),
    }


def test_groups_of_a_log_partition_that_is_loading_are_unknown(tmp_path: Path) -> None:
    tables = create_tables(tmp_path)
    rows = {"groups": [{"group_id": "g"}], "group_offsets": [offset("g", "t")]}
    for loading in ({"state": "loading"}, {"state": "waiting"}, {"reload_reason": "requested"}):
        apply_micro_batch(tables, progress=[loading], **rows)
        relations = relations_of(tables)
        assert relations.groups == {}
        assert not relations.is_gone("g")
        assert not relations.is_loaded

    apply_micro_batch(tables, progress=[{}])
    relations.refresh()
    assert (set(relations.groups), relations.is_loaded) == ({"g"}, True)

    apply_micro_batch(tables, progress=[{}], groups=[], group_offsets=[])
    relations.refresh()
    assert relations.is_gone("g")


def test_the_same_tables_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = create_tables(tmp_path)
    apply_micro_batch(tables, progress=[{}], groups=[{"group_id": "g"}])
    relations = relations_of(tables)
    # A micro-batch of other tables.
    write_rows(tables, "log_offsets", [])
    apply_micro_batch(tables, progress=[{"next_offset": 7}])
    with monkeypatch.context() as patched:
        patched.delattr(TableReader, "own")
        relations.refresh()
    apply_micro_batch(tables, progress=[{}], group_offsets=[offset("g", "t")])
    relations.refresh()
    assert set(relations.groups) == {"g"}
