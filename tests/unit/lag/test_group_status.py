"""In what state groups are, and why, by the rules of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator_state.insight.group_status import (
    Status,
    StatusRules,
    rebalancing_loop,
)
from streaming.lag.group_status import group_statuses, partition_statuses
from streaming.tables.reader import TableReader
from tests.support.clients.command_line import call
from tests.support.tables.status_tables import NOW, at, create_status_tables


def test_rebalances_in_a_row_are_a_loop() -> None:
    rules = StatusRules()
    assert rebalancing_loop(5, 0, 7, "classic", rules) is None
    found = rebalancing_loop(12, 4_000, 52, "classic", rules)
    assert found is not None
    assert found.status is Status.REBALANCING_LOOP
    assert found.reason == "12 rebalances in 5 min, the last 4 s ago; generation 52"


@pytest.fixture
def tables(tmp_path: Path) -> str:
    return create_status_tables(tmp_path)


def test_a_group_is_in_the_state_of_its_worst_partition(tables: str) -> None:
    found = {
        row["group_id"]: row for row in group_statuses(TableReader(tables), at=NOW).to_pylist()
    }
    assert {group: row["status"] for group, row in found.items()} == {
        "back": "REWIND",
        "idle": "IDLE",
        "loop": "REBALANCING_LOOP",
        "new": "OK",
        "nothing": "IDLE",
        "old": "DATA_LOSS",
    }
    old, loop = found["old"], found["loop"]
    assert (old["topic"], old["partition"], old["partitions"]) == ("t", 1, 2)
    assert (old["partitions_not_ok"], old["lag"]) == (2, 98)
    assert (loop["topic"], loop["partitions_not_ok"]) == (None, 0)
    assert loop["reason"] == "8 rebalances in 5 min, the last 0 s ago; generation 40"
    assert found["back"]["reason"].startswith("went back from 90 to 5 30 s ago and is at 6;")
    assert found["new"]["reason"] == "no offset is committed; 1 member without a partition"


def test_partitions_of_some_groups_at_another_moment(tables: str) -> None:
    reader = TableReader(tables)
    rows = partition_statuses(reader, at=NOW, group_ids=["old"]).to_pylist()
    assert [(row["partition"], row["status"]) for row in rows] == [
        (0, "EXPIRING"),
        (1, "DATA_LOSS"),
    ]
    (row,) = partition_statuses(reader, at=at(20), group_ids=["back"]).to_pylist()
    assert row["status"] == "OK"


def test_the_command(tables: str) -> None:
    version = str(TableReader(tables).version)
    lines = call("show", "status", "--tables", tables, "--as-of", version).stdout.splitlines()
    assert lines[0].split()[:4] == ["group_id", "group_type", "group_state", "status"]
    assert len(lines) == 7
