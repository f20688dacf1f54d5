"""Some kills of `run` in the middle of work; `python -m tests.kills` does as many as you like."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kills import kill_again_and_again

pytestmark = pytest.mark.timeout(900)


def test_a_run_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    survived = kill_again_and_again(tmp_path, kills=3, seed=3)
    assert survived.differences == []
    assert survived.rows["offset_commits"] > 100
    assert survived.rows["group_events"] > 10
