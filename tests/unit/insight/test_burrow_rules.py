"""Burrow's rules against the test cases of its own evaluator, and over tables."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.insight import burrow_rules
from coordinator_state.insight.burrow_rules import Commit
from coordinator_state.insight.group_status import Status
from streaming.lag.burrow_status import burrow_group_statuses, burrow_partition_statuses
from streaming.tables.reader import TableReader
from tests.support.clients.command_line import call, json_lines
from tests.support.tables.sample_rows import sample
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables, write_rows

GOLDEN = Path(__file__).parents[2] / "golden" / "burrow_evaluator.json"
CASES = json.loads(GOLDEN.read_text())["cases"]
NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_the_cases_of_burrows_evaluator(case: dict[str, Any]) -> None:
    commits = [Commit(*commit) for commit in case["commits"]]
    now_ms = 1000 * case["now_s"]
    assert burrow_rules.is_lag_never_zero(commits, case["allowed_lag"]) == case["is_lag_never_zero"]
    assert burrow_rules.rewind_index(commits) == case["rewind_index"]
    assert burrow_rules.is_stopped(commits, now_ms) == case["is_stopped"]
    assert burrow_rules.is_stalled(commits) == case["is_stalled"]
    assert burrow_rules.is_lag_not_decreasing(commits) == case["is_lag_not_decreasing"]
    assert burrow_rules.was_lag_zero(commits, case["log_end_offsets"]) == case["was_lag_zero"]
    verdict = burrow_rules.partition_status(
        commits, case["log_end_offsets"], case["lag"], now_ms, case["allowed_lag"]
    )
    assert verdict.status.value == case["status"]
    assert str(case["lag"]) in verdict.reason


@pytest.mark.parametrize(
    ("partitions", "group"),
    [
        ([], Status.OK),
        ([Status.OK, Status.OK], Status.OK),
        ([Status.OK, Status.WARN], Status.WARN),
        ([Status.WARN, Status.STALL], Status.ERR),
        ([Status.REWIND], Status.ERR),
    ],
)
def test_a_group_is_as_bad_as_its_worst_partition_and_err_at_most(
    partitions: list[Status], group: Status
) -> None:
    assert burrow_rules.group_status(partitions) is group


def at(seconds_ago: float) -> datetime:
    return NOW - timedelta(seconds=seconds_ago)


def commits_of(group_id: str, *offsets: int, every_s: float, last_s: float) -> list[Row]:
    times = [at(last_s + every_s * number) for number in range(len(offsets) - 1, -1, -1)]
    return [
        {
            "group_id": group_id,
            "topic": "t",
            "partition": 0,
            "record_offset": 100 * number,
            "committed_offset": offset,
            "commit_timestamp": time,
            "record_timestamp": time,
            "is_tombstone": False,
            "outcome": "committed",
            "outcome_record_offset": 100 * number,
            "day": time.date(),
        }
        for number, (offset, time) in enumerate(zip(offsets, times, strict=True))
    ]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log that gets 10 records a second, and groups that read it."""
    folder = create_tables(tmp_path_factory.mktemp("tables"))
    end = 10_000
    history = {
        "well": commits_of("well", *range(end - 200, end - 100, 10), every_s=1, last_s=1),
        "slow": commits_of("slow", *range(0, 50, 5), every_s=10, last_s=5),
        "once": commits_of("once", 5_000, every_s=1, last_s=300),
        "still": commits_of("still", *[7_000] * 12, every_s=10, last_s=5),
        "back": commits_of("back", *[8_000] * 8, 1_000, 1_010, every_s=10, last_s=5),
        "back long ago": commits_of("back long ago", 9_000, *range(10), every_s=1, last_s=1),
        "read": commits_of("read", end, every_s=1, last_s=300),
    }
    names = ("group_id", "topic", "partition", "committed_offset", "commit_timestamp")
    apply_micro_batch(
        folder,
        progress=[{}],
        groups=[{"group_id": group} for group in history],
        group_offsets=[{name: rows[-1][name] for name in names} for rows in history.values()],
        offset_commits=[row for rows in history.values() for row in rows],
    )
    samples = [sample(at(ago), end - 10 * ago) for ago in range(0, 600, 5)]
    write_rows(folder, "log_offsets", samples)
    return folder


def test_statuses_of_tables(tables: str) -> None:
    reader = TableReader(tables)
    statuses = burrow_partition_statuses(reader, at=NOW).to_pylist()
    assert {row["group_id"]: row["status"] for row in statuses} == {
        "well": "OK",
        "slow": "WARN",
        "once": "STOP",
        "still": "STALL",
        "back": "REWIND",
        # The window is ten commits long.
        "back long ago": "OK",
        "read": "OK",
    }
    groups = burrow_group_statuses(reader, at=NOW, group_ids=["once", "slow"]).to_pylist()
    assert [(row["group_id"], row["status"]) for row in groups] == [
        ("once", "ERR"),
        ("slow", "WARN"),
    ]
    assert groups[0]["reason"].startswith("STOP: no commit for 300 s")


def test_the_command(tables: str) -> None:
    version = str(TableReader(tables).version)
    arguments = ("show", "status", "--tables", tables, "--as-of", version, "--rules", "burrow")
    rows = json_lines(call(*arguments, "--by", "partition", "--output", "json"))
    assert len(rows) == 7
    refused = call("show", "status", "--tables", tables, "--by", "topic", exit_code=2)
    assert "--by must be group or partition for status" in refused.stderr
