"""The pace of groups where the history is too large to read, or reaches over days.

`tests/scenarios` has two hours of each kind of group.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from streaming.lag import paces
from streaming.lag.evaluation import Evaluation
from streaming.lag.paces import KnownPaces
from tests.support.tables.incident_tables import STEP_S, Cluster, moment
from tests.support.tables.tables_folder import create_tables

_RECORDS: Final = 100 * STEP_S

Step = Callable[[Cluster, str, int], None]


def open_transactions(every_s: int) -> Step:
    """An exactly-once producer has always a transaction open, and ends it in each interval."""

    def step(cluster: Cluster, name: str, t: int) -> None:
        log = cluster.logs[name, 0]
        if t % every_s == 0:
            # The next transaction begins at once.
            log.open_at = log.end
        cluster.produce(name, _RECORDS)
        if t % every_s == 0:
            # librdkafka commits a partition only after it has read from it.
            cluster.commit(name, log.open_at or 0)

    return step


def test_nothing_is_lost_or_invented_where_the_history_is_too_large_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commits of a stopped group leave the last ten minutes while its alert fires."""
    monkeypatch.setattr(paces, "is_too_large", lambda *_: True)
    cluster, known = Cluster(), KnownPaces()
    opens = open_transactions(60)
    statuses: dict[str, set[str]] = {"stops": set(), "opens": set()}
    for t in range(0, 1_501, STEP_S):
        if t == 0:
            cluster.members("stops")
            cluster.members("opens")
        end = cluster.produce("stops", _RECORDS)
        if t < 300:
            cluster.commit("stops", end)
        opens(cluster, "opens", t)
        cluster.step()
    snapshots = cluster.snapshots(create_tables(tmp_path))
    for t in range(360, 1_501, 60):
        reader = snapshots.reader(moment(t - STEP_S))
        assert reader is not None
        rows = Evaluation.of(reader, at=reader.moment, known=known).statuses
        for row in rows.to_pylist():
            statuses[row["group_id"]].add(row["status"])
    assert statuses == {"stops": {"STOP"}, "opens": {"OK"}}


def test_a_pace_of_hours_is_known_over_days(tmp_path: Path) -> None:
    """The group commits every six hours for four days, and then stops."""
    cluster, hour_s, stops_at_s = Cluster(), 3_600, 4 * 86_400
    statuses: dict[int, str] = {}
    for t in range(0, stops_at_s + 30 * hour_s, hour_s // 6):
        cluster.seconds = t
        if t == 0:
            cluster.members("slow")
        end = cluster.produce("slow", 1)
        if t % (6 * hour_s) == 0 and t <= stops_at_s:
            cluster.commit("slow", end)
        cluster.step()
    snapshots = cluster.snapshots(create_tables(tmp_path))
    for hours in (-50, -1, 5, 17, 19, 29):
        reader = snapshots.reader(moment(stops_at_s + hours * hour_s))
        assert reader is not None
        (row,) = Evaluation.of(reader, at=reader.moment).statuses.to_pylist()
        statuses[hours] = row["status"]
    assert statuses == {-50: "OK", -1: "OK", 5: "OK", 17: "OK", 19: "STOP", 29: "STOP"}
