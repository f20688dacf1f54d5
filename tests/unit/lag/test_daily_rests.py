"""Groups that rest at the same time each day, as a batch of the night does."""

from __future__ import annotations

import pytest

from streaming.lag import paces
from streaming.lag.evaluation import Evaluation
from streaming.lag.paces import KnownPaces
from tests.support.tables.incident_tables import Cluster, Snapshots, moment
from tests.support.tables.tables_folder import create_tables

_HOUR_S = 3_600
_DAY_S = 24 * _HOUR_S
_STEP_S = 600
_DAYS = 5
"""The last batch is that of the fourth day."""


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    """A batch reads for an hour each night; another group is away for three hours of one day."""
    cluster = Cluster()
    cluster.no_members("batch")
    cluster.members("away")
    for t in range(0, _DAYS * _DAY_S, _STEP_S):
        cluster.seconds = t
        day, second = divmod(t, _DAY_S)
        for group in ("batch", "away"):
            cluster.produce(group, 1_000)
        if 2 * _HOUR_S <= second < 3 * _HOUR_S and day < _DAYS - 1:
            cluster.commit("batch", cluster.logs["batch", 0].end)
        is_away = day >= _DAYS - 2 and 12 * _HOUR_S <= second < 15 * _HOUR_S
        if not is_away:
            cluster.commit("away", cluster.logs["away", 0].end)
        cluster.step()
    return cluster.snapshots(create_tables(tmp_path_factory.mktemp("days")))


def status(
    snapshots: Snapshots, group: str, day: int, hours: float, known: KnownPaces | None = None
) -> tuple[str, str]:
    """The status and reason of a group so many hours after the begin of a day, the first is 0."""
    reader = snapshots.reader(moment(day * _DAY_S + hours * _HOUR_S))
    assert reader is not None
    evaluation = Evaluation.of(reader, at=reader.moment, known=known or KnownPaces())
    rows = {row["group_id"]: row for row in evaluation.statuses.to_pylist()}
    return rows[group]["status"], rows[group]["reason"]


@pytest.mark.parametrize("hours", [0.5, 1.5, 5, 12, 23.5])
def test_a_batch_that_ran_on_two_days_may_rest_as_on_them(
    snapshots: Snapshots, hours: float
) -> None:
    status_then, reason = status(snapshots, "batch", 3, hours)
    assert status_then == "OK"
    assert "it usually rests for up to 24 h" in reason


def test_a_batch_that_does_not_begin_is_a_stop_once_it_is_half_an_hour_late(
    snapshots: Snapshots,
) -> None:
    known = KnownPaces()
    statuses = [
        status(snapshots, "batch", 4, hours, known)[0]
        for hours in (1.5, 2, 7 / 3, 8 / 3, 4, 12, 20)
    ]
    assert statuses == ["OK", "OK", "OK", "STOP", "STOP", "STOP", "STOP"]


def test_one_day_is_no_habit(snapshots: Snapshots) -> None:
    assert status(snapshots, "batch", 1, 12)[0] == "STOP"


def test_a_group_that_was_away_at_this_time_yesterday_is_still_missed(
    snapshots: Snapshots,
) -> None:
    assert status(snapshots, "away", 4, 14)[0] == "STOP"
    assert status(snapshots, "away", 4, 16)[0] == "OK"


def test_a_history_that_is_too_large_to_read_shows_no_rest(
    snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paces, "is_too_large", lambda *_: True)
    assert status(snapshots, "batch", 3, 12)[0] != "OK"
