"""The incident "`run` was stopped": what each place says, and after how many seconds.

The tables are those of a `run` that wrote for the last time some seconds ago.
"""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import NamedTuple

import pytest

from streaming.alerts.alert_run import AlertRun
from streaming.dashboard.app import create_app
from tests.support.brokers.receivers import HttpReceiver
from tests.support.clients.command_line import call, json_lines
from tests.support.tables.alert_rules import lag_of, write_rules
from tests.support.tables.tables_folder import create_tables

SOON_S, LATE_S = 100, 121
"""Before and after the limit of 120 s; a slow machine has 20 s for all questions."""
REASON = "is `run` running?"


class Said(NamedTuple):
    """Whether each place says that nothing is written."""

    page: bool
    show: bool
    status: bool
    alert: bool


@pytest.fixture
def tables(tmp_path: Path) -> str:
    return create_tables(tmp_path / "tables")


def stop_run(tables: str, seconds_ago: float) -> None:
    """A group that was behind when `run` wrote for the last time."""
    lag_of(tables, 50, seconds_ago=seconds_ago)


def said_of(tables: str, run: AlertRun) -> Said:
    page = unescape(create_app({"prod": tables}).test_client().get("/c/prod/health").text)
    show = call("show", "status", "--tables", tables, "--output", "json")
    (group,) = json_lines(show)
    run.round()
    return Said(
        page="Is `run` running?" in page,
        show="Is `run` running?" in show.stderr,
        status=group["status"] == "UNKNOWN" and REASON in group["reason"],
        alert=any(alert.rule == "tables_stale" for alert in run.alerts.values()),
    )


def test_each_place_says_so_after_two_minutes(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    run = AlertRun(tables, write_rules(tmp_path, receiver.url))
    stop_run(tables, SOON_S)
    assert said_of(tables, run) == Said(page=False, show=False, status=False, alert=False)
    stop_run(tables, LATE_S)
    assert said_of(tables, run) == Said(page=True, show=True, status=True, alert=True)
    # Another `run` takes over.
    stop_run(tables, 0)
    said_of(tables, run)
    stale = [alert for alert in receiver.alerts if alert["rule"] == "tables_stale"]
    assert [alert["status"] for alert in stale] == ["firing", "resolved"]
