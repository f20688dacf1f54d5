"""Groups whose members have left, from the times of their commits and of their leaves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from coordinator_state.insight.absence import Leaves, Runs, runs_before
from coordinator_state.insight.lag import UNKNOWN
from tests.support.logs.growing_logs import MINUTE_MS, busy, commits_at, growing_logs


def runs(minutes: Sequence[float], begun: float, *left: float) -> Runs:
    """The runs of a key with commits of the log end at these minutes; each second has a record."""
    left_ms = np.array([minute * MINUTE_MS for minute in left], np.int64)
    return runs_before(
        growing_logs(1, 300),
        commits_at([minutes]),
        1,
        np.array([begun * MINUTE_MS], np.int64),
        Leaves(np.zeros(left_ms.size, np.int64), left_ms),
        np.array([45_000]),
    )


@pytest.mark.parametrize(
    ("minutes", "begun", "left", "kept_up", "rests", "usual_return"),
    [
        # A job of five minutes, and its second run.
        (busy((1, 6)), 1, [6], 5, 0, None),
        (busy((1, 6), (31, 36)), 1, [6, 36], 5, 1, 25),
        # A service that was restarted within half a minute goes on to keep up.
        (busy((1, 40), (40.5, 60)), 1, [40, 60], 59, 0, 0.5),
        # Nobody saw its members come, and its only commits are young.
        (busy((90, 91)), 20, [91], 71, 0, None),
        # It was behind for half an hour after a crash: the members did not leave before that.
        (busy((0, 40), (70, 80)), 0, [40.75, 80], 40, 1, None),
    ],
)
def test_runs_until_the_members_left(
    minutes: list[float],
    begun: float,
    left: list[float],
    kept_up: float,
    rests: int,
    usual_return: float | None,
) -> None:
    (kept_up_ms,), (count,), (usual_return_ms,) = runs(minutes, begun, *left)
    assert kept_up_ms / MINUTE_MS == pytest.approx(kept_up, abs=0.05)
    assert count == rests
    if usual_return is None:
        assert usual_return_ms == UNKNOWN
    else:
        assert usual_return_ms / MINUTE_MS == pytest.approx(usual_return, abs=0.05)


def test_a_batch_that_works_off_a_backlog_has_not_kept_up() -> None:
    """It begins with records of an hour, and reads four times as fast as producers write."""
    commits = commits_at([busy((60, 80))])
    offset = np.minimum(commits.committed_offset, (commits.committed_at_ms - 3_600_000) // 250)
    left = Leaves(np.zeros(1, np.int64), np.array([82 * MINUTE_MS]))
    (kept_up_ms,), (rests,), _ = runs_before(
        growing_logs(1, 90),
        commits._replace(committed_offset=offset),
        *(1, np.array([3_600_000]), left, np.array([45_000])),
    )
    assert 2 * MINUTE_MS <= kept_up_ms < 3 * MINUTE_MS
    assert rests == 0
