"""The incident "`run` was stopped": what each place says, and after how many seconds.

The tables are those of a `run` that wrote for the last time some seconds ago.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from html import unescape
from pathlib import Path
from typing import NamedTuple

import pytest

from streaming.alerts.alert_run import AlertRun
from streaming.dashboard.app import create_app
from tests.support.brokers.receivers import HttpReceiver
from tests.support.clients.command_line import call, json_lines
from tests.support.tables.alert_rules import lag_of, write_rules
from tests.support.tables.scraped_tables import labels, scraped
from tests.support.tables.tables_folder import create_tables, write_rows

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
    """A group that was behind, and in a loop of rebalances up to the end."""
    lag_of(tables, 50, seconds_ago=seconds_ago)
    stopped_at = datetime.now(timezone.utc) - timedelta(seconds=seconds_ago)
    write_rows(
        tables,
        "group_events",
        [
            {
                **{"group_id": "g", "event": "rebalance", "record_offset": number},
                **{"record_timestamp": stopped_at - timedelta(seconds=number), "event_number": 0},
                **{"epoch_after": 40 - number, "day": stopped_at.date()},
            }
            for number in range(8)
        ],
    )
    # A snapshot has the events that were written before its `load_progress`.
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
    stop_run(tables, 0)
    assert said_of(tables, run) == Said(page=False, show=False, status=False, alert=False)
    stop_run(tables, SOON_S)
    assert said_of(tables, run) == Said(page=False, show=False, status=False, alert=False)
    stop_run(tables, LATE_S)
    assert said_of(tables, run) == Said(page=True, show=True, status=True, alert=True)
    stale = receiver.alerts[-1]
    assert (stale["rule"], stale["status"]) == ("tables_stale", "firing")
    # Another `run` takes over.
    stop_run(tables, 0)
    said_of(tables, run)
    assert [(one["rule"], one["status"]) for one in receiver.alerts][-1] == (
        *("tables_stale", "resolved"),
    )


def test_what_was_claimed_before_the_stop_is_not_claimed_after_it(tables: str) -> None:
    def group() -> tuple[str, str | None]:
        (row,) = json_lines(call("show", "status", "--tables", tables, "--output", "json"))
        return row["status"], row["topic"]

    stop_run(tables, SOON_S)
    assert group() == ("REBALANCING_LOOP", None)
    stop_run(tables, LATE_S)
    assert group() == ("UNKNOWN", None)


@pytest.mark.parametrize("seconds_ago", [0, SOON_S, LATE_S, 86_400])
def test_the_metric_has_the_time_of_the_last_write_at_any_time(
    tables: str, seconds_ago: int
) -> None:
    stop_run(tables, seconds_ago)
    found = scraped(tables)["coordinator_state_tables_written_timestamp_seconds", labels()]
    assert 0 <= time.time() - found - seconds_ago < 30


def test_a_moment_before_the_stop_is_judged_as_it_was(tables: str) -> None:
    stop_run(tables, 0)
    before = datetime.now(timezone.utc).isoformat()
    stop_run(tables, LATE_S)
    shown = call("show", "status", "--tables", tables, "--as-of", before, "--output", "json")
    (row,) = json_lines(shown)
    assert REASON not in row["reason"]
    assert "Nothing written" not in shown.stderr
