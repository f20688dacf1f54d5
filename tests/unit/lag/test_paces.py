"""The pace of groups over days, as of a batch of the night, and without a readable history.

`tests/scenarios` has two hours of each kind of group.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streaming.lag import paces
from streaming.lag.paces import KnownPaces
from tests.support.tables.incident_tables import STEP_S, Cluster, Snapshots
from tests.support.tables.tables_folder import create_tables

_HOUR_S = 3_600
_DAY_S = 24 * _HOUR_S
_DAYS = 5
"""The last batch is that of the fourth day."""


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    """Groups that commit for an hour of each night, and every six hours, until the last day.

    The first one reads two partitions. A third one is away for three hours of each of the last two
    days.
    """
    cluster = Cluster()
    cluster.no_members("batch")
    cluster.members("slow")
    cluster.members("away")
    for t in range(0, _DAYS * _DAY_S, 600):
        cluster.seconds = t
        day, second = divmod(t, _DAY_S)
        ends = {group: cluster.produce(group, 1_000) for group in ("batch", "slow", "away")}
        second_end = cluster.produce("batch", 10, partition=1)
        if 2 * _HOUR_S <= second < 3 * _HOUR_S and day < _DAYS - 1:
            cluster.commit("batch", ends["batch"])
            cluster.commit("batch", second_end, partition=1)
        if t % (6 * _HOUR_S) == 0 and t <= 4 * _DAY_S:
            cluster.commit("slow", ends["slow"])
        is_away = day >= _DAYS - 2 and 12 * _HOUR_S <= second < 15 * _HOUR_S
        if not is_away:
            cluster.commit("away", ends["away"])
        # The last two days are looked at within an hour.
        cluster.step(600 if day >= _DAYS - 2 else _HOUR_S)
    return cluster.snapshots(create_tables(tmp_path_factory.mktemp("days")))


def status(
    days: Snapshots, group: str, day: int, hours: float, known: KnownPaces | None = None
) -> tuple[str, str]:
    """The status and reason of a group so many hours after the begin of a day, the first is 0."""
    row = days.statuses(day * _DAY_S + hours * _HOUR_S, known)[group]
    return row["status"], row["reason"]


@pytest.mark.parametrize("hours", [0.5, 1.5, 5, 12, 23.5])
def test_a_batch_that_ran_on_two_days_may_rest_as_on_them(days: Snapshots, hours: float) -> None:
    status_then, reason = status(days, "batch", 3, hours)
    assert status_then == "OK"
    # The reason of the partition, then the lag of the group.
    assert re.fullmatch(
        r"batch:0: no commit for .*; it usually rests for up to 24 h; \S+ behind, .*", reason
    )


def test_a_batch_that_does_not_begin_is_a_stop_once_it_is_half_an_hour_late(
    days: Snapshots,
) -> None:
    known = KnownPaces()
    hours = (1.5, 2, 7 / 3, 8 / 3, 4, 12, 20)
    statuses = [status(days, "batch", 4, number, known)[0] for number in hours]
    assert statuses == ["OK", "OK", "OK", "STOP", "STOP", "STOP", "STOP"]


@pytest.mark.parametrize(
    ("group", "day", "hours", "expected"),
    [
        # The group may have stopped on its first day. One day is no habit, but may be.
        ("batch", 0, 12, "STOP"),
        ("batch", 1, 12, "UNKNOWN"),
        # It was away at this time yesterday, and is still missed.
        ("away", 4, 14, "STOP"),
        ("away", 4, 16, "OK"),
        # A pace of six hours is known.
        ("slow", 1, 22, "OK"),
        ("slow", 3, 23, "OK"),
        *(("slow", 4, hours, "OK") for hours in (5, 17)),
        *(("slow", 4, hours, "STOP") for hours in (19, 23)),
    ],
)
def test_a_habit_of_days(
    days: Snapshots, group: str, day: int, hours: float, expected: str
) -> None:
    assert status(days, group, day, hours)[0] == expected


def test_a_history_that_is_too_large_to_read_shows_no_rest(
    days: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paces, "is_too_large", lambda *_: True)
    assert status(days, "batch", 3, 12)[0] == "STOP"


def test_nothing_is_lost_or_invented_where_the_history_is_too_large_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commits of a stopped group leave the last ten minutes while its alert fires.

    Another group reads an exactly-once producer, which always has a transaction open.
    """
    monkeypatch.setattr(paces, "is_too_large", lambda *_: True)
    cluster, known = Cluster(), KnownPaces()
    for t in range(0, 1_501, STEP_S):
        for group in ("stops", "opens"):
            if t == 0:
                cluster.members(group)
            log = cluster.logs[group, 0]
            if group == "opens" and t % 60 == 0:
                # librdkafka commits a partition only after it has read from it.
                log.open_at = log.end
                cluster.commit(group, log.end)
            cluster.produce(group, 500)
            if group == "stops" and t < 300:
                cluster.commit(group, log.end)
        cluster.step(15)
    snapshots = cluster.snapshots(create_tables(tmp_path))
    for t in range(360, 1_501, 60):
        rows = snapshots.statuses(t - STEP_S, known)
        assert {group: row["status"] for group, row in rows.items()} == {
            "stops": "STOP",
            "opens": "OK",
        }, t
