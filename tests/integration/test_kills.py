"""Some kills of `run` in the middle of work; `python -m tests.kills` does as many as you like."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kills.__main__ import SHORT_LIVED, kill_again_and_again
from tests.kills.fault_points import NEXT_READ

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

PLAN_OF_SPARK = ("in planning", "after groups", "before load_progress", "in roll-back")
PLAN = ("in creation of a table", "after load_progress", NEXT_READ, "in roll-back")


def test_a_run_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    survived = kill_again_and_again(tmp_path, PLAN, seed=3, kinds=["plain"])
    assert survived.differences == []
    assert survived.never_reached == []
    assert survived.kills.keys() >= {*PLAN}
    assert survived.comparisons >= 1
    assert survived.rows["offset_commits"] > 100
    assert survived.rows["group_events"] > 10
    assert survived.rows["quarantine"] > 0


@pytest.mark.release
def test_a_run_on_spark_that_is_killed_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SHORT_LIVED.items():
        monkeypatch.setenv(name, value)
    # A micro-batch of the engine `spark` takes a minute in a JVM with one compiler.
    survived = kill_again_and_again(tmp_path, PLAN_OF_SPARK, seed=3, kinds=["spark"], most_passes=1)
    assert survived.differences == []
    assert survived.never_reached == []
    assert survived.comparisons >= 1
    assert survived.rows["offset_commits"] > 100
