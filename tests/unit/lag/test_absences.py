"""Groups whose members have left: jobs, services and crashes, by the events of their members.

`tests/scenarios` has more of them, over two hours.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state.insight.absence import Runs, runs_before
from streaming.lag import absences
from streaming.lag.paces import KnownPaces
from tests.support.tables.incident_tables import STEP_S, Cluster, Snapshots
from tests.support.tables.tables_folder import create_tables

_MINUTE_S = 60
_DAY_S = 86_400
_ENDS_S = 30 * _MINUTE_S
_RUNS_FOR_S = {"job": 5 * _MINUTE_S, "crashes": 5 * _MINUTE_S, "service": 25 * _MINUTE_S}
_LOOKS = (*range(_ENDS_S, 2 * _ENDS_S, 5 * _MINUTE_S), _DAY_S, _DAY_S + 2 * _ENDS_S)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    """Groups that end at the same time, and one whose members poll every quarter of an hour."""
    cluster = Cluster()
    for t in range(0, 2 * _ENDS_S, STEP_S):
        if t == _ENDS_S:
            cluster.members("polls-slowly", max_poll_ms=900_000)
        cluster.produce("polls-slowly", 50)
        for group, runs_for_s in _RUNS_FOR_S.items():
            end = cluster.produce(group, 50)
            if t == _ENDS_S - runs_for_s:
                cluster.members(group)
            if _ENDS_S - runs_for_s <= t <= _ENDS_S:
                cluster.commit(group, end)
            if t == _ENDS_S + (45 if group == "crashes" else 0):
                cluster.no_members(group, 2)
        cluster.step(5 * _MINUTE_S)
    while cluster.seconds <= _DAY_S + 2 * _ENDS_S:
        for group in (*_RUNS_FOR_S, "polls-slowly"):
            cluster.produce(group, 50)
        cluster.step(10 * _MINUTE_S)
        cluster.seconds += 10 * _MINUTE_S - STEP_S
    return cluster.snapshots(create_tables(tmp_path_factory.mktemp("ended")))


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize(
    ("group", "expected"),
    [
        # A minute later nothing is late yet.
        ("job", ["OK", *["UNKNOWN"] * 5, "UNKNOWN", "WARN"]),
        ("crashes", ["OK", *["STOP"] * 5, "STOP", "STOP"]),
        ("service", ["OK", *["STOP"] * 5, "STOP", "STOP"]),
        ("polls-slowly", ["OK", "WARN", "WARN", "WARN", "STOP", "STOP", "STOP", "STOP"]),
    ],
)
def test_a_group_without_members(
    ended: Snapshots, group: str, expected: list[str], *, is_kept: bool
) -> None:
    known = KnownPaces()
    rows = [ended.statuses(t, known if is_kept else None)[group] for t in _LOOKS]
    assert [row["status"] for row in rows] == expected
    if group == "job":
        assert all("the members left at 12:30:00 UTC, after" in row["reason"] for row in rows[1:6])


def test_a_job_whose_history_is_too_large_to_read_is_a_stop(
    ended: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(absences, "is_too_large", lambda *_: True)
    assert ended.statuses(_ENDS_S + 5 * _MINUTE_S)["job"]["status"] == "STOP"


def test_the_history_is_read_again_only_when_the_group_writes(
    ended: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, reads = KnownPaces(), 0

    def counted(*args: Any) -> Runs:
        nonlocal reads
        reads += 1
        return runs_before(*args)

    monkeypatch.setattr(absences, "runs_before", counted)
    for t in _LOOKS[1:4]:
        ended.statuses(t, known)
    assert reads == 1
