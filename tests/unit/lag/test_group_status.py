"""In what state groups are, and why, by the rules of our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator_state.insight.group_status import (
    PartitionFacts,
    Status,
    StatusRules,
    partition_status,
    rebalancing_loop,
)
from coordinator_state.insight.lag import NO_SAMPLE
from streaming.lag.group_status import group_statuses, partition_statuses
from streaming.tables.reader import TableReader
from tests.support.clients.command_line import call
from tests.support.tables.status_tables import NOW, at, create_status_tables

WELL: dict[str, Any] = {
    **{"has_members": True, "topic_state": "present", "committed_offset": 1_000},
    **{"log_start_offset": 0, "last_stable_offset": 1_000, "log_end_offset": 1_000},
    **{"lag": 0, "lag_to_last_stable": 0, "data_lost": 0},
    **{"time_lag_ms": 0, "time_lag_unknown": None, "retention_margin_ms": None},
    **{"commit_rate_per_s": 10.0, "produce_rate_per_s": 10.0, "time_to_catch_up_ms": 0},
    **{"commit_age_ms": 4_000, "commits": 121, "commits_from_ms": 604_000},
    **{"least_offset": 0, "greatest_offset": 1_000},
    **{"pending_age_ms": None, "expires_in_ms": None, "behind_ms": 900},
}
BEHIND = {"lag": 500, "lag_to_last_stable": 500, "log_end_offset": 1_500, "time_lag_ms": 90_000}
AT_STABLE = BEHIND | {"lag_to_last_stable": 0, "last_stable_offset": 1_000}
STILL = BEHIND | {"least_offset": 1_000}
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("facts", "status", "reason"),
    [
        ({}, "OK", "caught up"),
        ({"has_members": False}, "IDLE", "caught up; no members"),
        (
            {"lag": None, "time_lag_unknown": NO_SAMPLE},
            "UNKNOWN",
            "the log was not sampled yet",
        ),
        ({"behind_ms": 121_000}, "UNKNOWN", "the tables are 121 s behind __consumer_offsets"),
        (
            {"behind_ms": None},
            "UNKNOWN",
            "it is unknown how far the tables are behind __consumer_offsets",
        ),
        (BEHIND | {"time_lag_ms": 900}, "OK", "500 records behind, oldest 0.9 s"),
        # As fast as it is written to, and not getting behind.
        (BEHIND, "OK", "500 records behind, oldest 90 s"),
        (
            BEHIND | {"commit_rate_per_s": 8.25},
            "WARN",
            "reads 8.25 records/s, producers write 10 records/s; 500 records behind, oldest 90 s",
        ),
        (
            BEHIND | {"retention_margin_ms": 600_000, "time_to_catch_up_ms": None},
            "WARN",
            "records will be deleted in 600 s; 500 records behind, oldest 90 s",
        ),
        (BEHIND | {"retention_margin_ms": 600_000, "time_to_catch_up_ms": 500_000}, "OK", ""),
        (
            BEHIND | {"commit_age_ms": 61_000},
            "STOP",
            "no commit for 61 s, usually every 4.5 s; 500 records behind, oldest 90 s",
        ),
        # What has not waited for long needs no commit.
        (BEHIND | {"commit_age_ms": 600_000, "time_lag_ms": 2_000}, "OK", ""),
        # Every ten minutes.
        (
            BEHIND
            | {"commits": 2, "commits_from_ms": 1_000_000, "commit_age_ms": 400_000}
            | {"time_lag_ms": 400_000},
            "OK",
            "",
        ),
        (
            BEHIND | {"commits": 7, "commits_from_ms": 540_000, "commit_rate_per_s": 8.25},
            "OK",
            "500 records behind, oldest 90 s",
        ),
        # The pace is not known yet.
        (
            BEHIND
            | {"commits": 1, "commits_from_ms": 85_000, "commit_age_ms": 85_000}
            | {"commit_rate_per_s": 0.0},
            "OK",
            "500 records behind, oldest 90 s",
        ),
        # One commit says nothing of the pace.
        (
            BEHIND
            | {"commits": 1, "commits_from_ms": 200_000, "commit_age_ms": 200_000}
            | {"time_lag_ms": 200_000},
            "OK",
            "",
        ),
        (
            BEHIND
            | {"commits": 1, "commits_from_ms": 301_000, "commit_age_ms": 301_000}
            | {"time_lag_ms": None},
            "STOP",
            "no commit for 301 s; 500 records behind",
        ),
        (
            STILL,
            "STALL",
            "121 commits in 604 s, all at offset 1000; 500 records behind, oldest 90 s",
        ),
        (STILL | {"time_lag_ms": 50_000}, "OK", ""),
        # The last commit was before there was anything to read.
        (STILL | {"time_lag_ms": 59_000, "commit_age_ms": 59_500}, "OK", ""),
        (
            BEHIND | {"greatest_offset": 1_400},
            "REWIND",
            "went back from 1400 in the last 604 s and is at 1000; 500 records behind, oldest 90 s",
        ),
        ({"greatest_offset": 1_400}, "OK", "caught up"),
        (
            AT_STABLE | {"time_lag_ms": 901_000},
            "HANGING_TRANSACTION",
            "a transaction in the log has been open for 901 s: last stable offset 1000, log end "
            "1500",
        ),
        (
            {"pending_age_ms": 7_200_000},
            "HANGING_TRANSACTION",
            "a transactional commit has been pending for 2 h",
        ),
        (
            BEHIND | {"data_lost": 20, "log_start_offset": 1_020},
            "DATA_LOSS",
            "20 records were deleted before they were read: committed 1000, log start 1020",
        ),
        (
            {"topic_state": "gone", "lag": None},
            "TOPIC_GONE",
            "the topic was deleted; committed offset 1000 remains",
        ),
        (
            {"has_members": False, "expires_in_ms": DAY_MS - 1},
            "EXPIRING",
            "offset 1000 expires in 24 h",
        ),
        ({"expires_in_ms": -5}, "EXPIRING", "offset 1000 is due to expire"),
        ({"expires_in_ms": DAY_MS}, "OK", "caught up"),
    ],
)
def test_a_partition(facts: dict[str, Any], status: str, reason: str) -> None:
    found = partition_status(PartitionFacts(**{**WELL, **facts}), StatusRules())
    assert found.status.value == status
    if reason:
        assert found.reason == reason


def test_rebalances_in_a_row_are_a_loop() -> None:
    rules = StatusRules()
    assert rebalancing_loop(5, 0, 7, rules) is None
    found = rebalancing_loop(12, 4_000, 52, rules)
    assert found is not None
    assert found.status is Status.REBALANCING_LOOP
    assert found.reason == "12 rebalances in 300 s, the last 4 s ago; generation or epoch 52"


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
    assert loop["reason"] == "8 rebalances in 300 s, the last 0 s ago; generation or epoch 40"
    assert found["back"]["reason"].startswith("went back from 90 in the last 60 s and is at 6;")
    assert found["new"]["reason"] == "no offset is committed yet"


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
