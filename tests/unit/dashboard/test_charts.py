"""The charts of a group, and its statuses over time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from streaming.dashboard.request import moment_text
from streaming.lag.evaluation import Evaluation
from streaming.run.evaluation import StatusEvaluation
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from tests.support.browser.html import json_of, page_client
from tests.support.tables.dashboard_tables import REWOUND, DashboardTables
from tests.support.tables.demo_incidents import END
from tests.support.tables.status_tables import NOW, create_status_tables


def chart_of(client: TestClient, path: str, status: int = 200, /, **arguments: str) -> Any:
    return json_of(client, f"/c/prod/group/{path}", status, **{"group": REWOUND, **arguments})


def test_the_charts_of_a_group(client: TestClient, tables: DashboardTables) -> None:
    # As of the last micro-batch: no look before that falls between it and the one before.
    chart = chart_of(client, "chart", span="1h", at=tables.after.isoformat())
    assert len(chart["at"]) == len(chart["lag"]) == len(chart["commit_rate"]) == 120
    # Both partitions went back from ten behind to nine hundred.
    assert chart["lag"][-1] == chart["produced"][-1] - chart["committed"][-1] == 2 * 900
    # The first sample was written five minutes before.
    assert chart["until"] - chart["since"] == 3_600
    assert 300 <= chart["until"] - chart["begin"] < 400
    [mark] = chart["events"]
    assert (mark["name"], mark["count"], mark["is_heavy"]) == ("offset rewind", 1, True)
    assert "set back from 990 to 100" in mark["text"]
    assert chart["begin"] == chart["at"][0] < mark["at"] == mark["until"] < chart["until"]
    assert "990" in client.get(mark["address"]).text
    assert chart_of(client, "chart", at=tables.before.isoformat())["events"] == []
    assert set(chart_of(client, "chart", group="nobody")["lag"]) == {None}
    for path in ("chart", "statuses"):
        assert "the tables reach from" in chart_of(client, path, 400, at="2001-01-01")["error"]


def test_the_statuses_of_a_group(tmp_path: Path) -> None:
    """As `run` recorded them; where it did not evaluate, they are not known."""
    folder = create_status_tables(tmp_path)
    client = page_client(prod=folder)

    def statuses() -> Any:
        until = moment_text(NOW + timedelta(minutes=7))
        since = moment_text(NOW - timedelta(minutes=1))
        return chart_of(client, "statuses", group="loop", since=since, until=until)

    [unknown] = statuses()["periods"]
    assert (unknown["status"], unknown["level"]) == ("not known", "none")
    kept = StatusEvaluation(open_for_writing(folder, "test"))
    for seconds in range(0, 401, 100):
        kept.keep(Evaluation.of(TableReader(folder), at=NOW + timedelta(seconds=seconds)))
    client = page_client(prod=folder)
    answer = statuses()
    _, loop, unknown = answer["periods"]
    assert (loop["status"], loop["level"]) == ("REBALANCING_LOOP", "warning")
    assert (unknown["status"], unknown["level"]) == ("UNKNOWN", "unknown")
    assert loop["from"] == NOW.timestamp()
    [change] = answer["changes"]
    assert (change["before"], change["status"]) == ("REBALANCING_LOOP", "UNKNOWN")
    assert (change["at"], change["reason"]) == (unknown["from"], unknown["reason"])
    assert "since=" in change["around"]


@pytest.mark.parametrize(
    ("group", "minutes", "marks", "more"),
    [
        # Many rebalances have no mark.
        ("search", 60, [], 24),
        ("search", 1, 6 * [("rebalance", 1)], 0),
        ("reports", 60, [("offset rewind", 4)], 0),
        # Equal events that are close to each other are one mark, others have their own.
        ("returns", 60, [("offset deleted", 48)], 0),
        ("returns", 4, 30 * [("offset deleted", 1)], 18),
    ],
)
def test_heavy_events_and_few_rebalances_have_marks(
    demo_client: TestClient, group: str, minutes: int, marks: list[tuple[str, int]], more: int
) -> None:
    since = (END - timedelta(minutes=minutes)).isoformat()
    chart = chart_of(demo_client, "chart", group=group, since=since, until=END.isoformat())
    assert [(mark["name"], mark["count"]) for mark in chart["events"]] == marks
    assert chart["more_events"] == more
