"""The pauses of keys, from the times of their commits and of the changes of their members."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator_state.insight.lag import UNKNOWN
from coordinator_state.insight.pace import Commits
from coordinator_state.insight.pauses import MemberChanges, Pauses, pauses
from coordinator_state.log.commit_sampling import HistoryResolution, Resolution
from tests.support.logs.growing_logs import MINUTE_MS, busy, commits_at, growing_logs

NOBODY = MemberChanges(*(np.zeros(size, np.int64) for size in (1, 0, 0)))


def pauses_of(
    commits: Commits,
    now: int,
    changes: MemberChanges = NOBODY,
    resolution: HistoryResolution | None = None,
) -> Pauses:
    resolution = resolution or HistoryResolution()
    return pauses(growing_logs(1, now), commits, 1, now * MINUTE_MS, resolution, changes)


@pytest.mark.parametrize(
    ("minutes", "now", "only", "usual"),
    [
        # One pause of 90 s; then two; a longer one is none.
        (busy((0, 10), (11.5, 20)), 21, 1.5, None),
        (busy((0, 10), (11.5, 20), (21.5, 30)), 31, 1.5, 1.5),
        (busy((0, 10), (13, 20)), 21, None, None),
        # Two of three minutes may be outages, and one is no pause.
        (busy((0, 10), (13, 20), (23, 30)), 31, 3, None),
        # Three of five minutes, as well, and shorter ones remain usual.
        (busy((0, 20), (25, 40), (45, 60), (65, 80)), 81, 5, None),
        (busy((0, 10), (11.5, 20), (21.5, 30), (33, 40), (43, 50)), 51, 3, 1.5),
        # Two outages of ten minutes are no pauses, and make no shorter pause usual.
        (busy((0, 10), (20, 30), (40, 50), (51.5, 60)), 61, 1.5, None),
        # The older one may be an interval of the history.
        (busy((0, 60), (61.5, 180), (181.5, 200)), 201, 1.5, None),
        # In three hours, one of two minutes is no habit, two of them are.
        (busy((0, 60), (62, 180)), 181, None, None),
        (busy((0, 60), (62, 120), (122, 180)), 181, 2, 2),
    ],
)
def test_pauses_are_short_and_were_seen_before(
    minutes: list[float], now: int, only: float | None, usual: float | None
) -> None:
    """Apart from them, the key commits each ten seconds."""
    lengths_ms = pauses_of(commits_at([minutes]), now)
    for (length_ms,), expected in zip(lengths_ms, (usual, only), strict=True):
        if expected is None:
            assert length_ms < MINUTE_MS
        else:
            assert length_ms / MINUTE_MS == pytest.approx(1.25 * expected, abs=0.01)


def test_members_that_leave_do_not_pause() -> None:
    """A crash that lasted 90 s does not delay the alarm of the next one."""
    commits = commits_at([busy((0, 10), (11.5, 20), (21.5, 30))])
    group, left_at_ms = np.zeros(1, np.int64), np.array([11 * MINUTE_MS])
    lengths_ms = pauses_of(commits, 31, MemberChanges(np.zeros(1, np.int64), group, left_at_ms))
    assert lengths_ms.only_ms.tolist() == [1.25 * 90_000]
    assert lengths_ms.usual_ms[0] < MINUTE_MS
    # Another group's members say nothing.
    other = MemberChanges(np.zeros(1, np.int64), group + 1, left_at_ms)
    assert pauses_of(commits, 31, other).usual_ms.tolist() == [1.25 * 90_000]


def test_a_group_that_does_not_catch_up_has_stalled() -> None:
    """After each wait, the group is still a minute behind the log end."""
    commits = commits_at([busy((0, 10), (11.5, 20), (21.5, 30))])
    late = Commits(*commits[:2], np.maximum(commits.committed_offset - 60, 0), commits[3])
    assert pauses_of(late, 31) == Pauses(np.array([UNKNOWN]), np.array([UNKNOWN]))


def test_intervals_of_a_sampled_history_are_no_pauses() -> None:
    commits = commits_at([[*range(30), *busy((30, 90))]])
    finer = HistoryResolution((Resolution(5_000, 7_200_000),), 60_000)
    assert pauses_of(commits, 90, resolution=finer).usual_ms.tolist() == [75_000]
    assert pauses_of(commits, 90).usual_ms[0] < MINUTE_MS
