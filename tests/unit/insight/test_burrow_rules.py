"""Burrow's rules against the test cases of its own evaluator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.insight import burrow_rules
from coordinator_state.insight.burrow_rules import Commit
from coordinator_state.insight.group_status import Status

GOLDEN = Path(__file__).parents[2] / "golden" / "burrow_evaluator.json"
CASES = json.loads(GOLDEN.read_text())["cases"]


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
