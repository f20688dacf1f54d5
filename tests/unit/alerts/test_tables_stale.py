"""Tables that nobody writes any more are an alert that needs no rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streaming.alerts.alert import AlertKey, AlertState
from streaming.alerts.alert_run import AlertRun
from tests.support.brokers.receivers import HttpReceiver
from tests.support.tables.alert_rules import lag_of, told, write_rules
from tests.support.tables.tables_folder import apply_micro_batch, write_rows

STALE = AlertKey("tables_stale")


def test_it_fires_two_minutes_after_the_last_write(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    run = AlertRun(tables, write_rules(tmp_path, receiver.url))
    lag_of(tables, 0, seconds_ago=110)
    run.round()
    assert told(receiver) == []
    lag_of(tables, 0, seconds_ago=121)
    run.round()
    run.round()
    (notice,) = receiver.alerts
    assert (notice["rule"], notice["severity"]) == ("tables_stale", "critical")
    since = r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC"
    assert re.fullmatch(rf"nothing written since {since}; is `run` running\?", notice["reason"])
    assert notice["value"] == pytest.approx(121_000, abs=5_000)
    lag_of(tables, 0)
    run.round()
    assert told(receiver) == ["firing", "resolved"]


def test_other_alerts_stay_as_they_are(tables: str, tmp_path: Path, receiver: HttpReceiver) -> None:
    """They neither end nor begin."""
    run = AlertRun(tables, write_rules(tmp_path, receiver.url))
    lag_of(tables, 50)
    run.round()
    lag_of(tables, 0, seconds_ago=200)
    run.round()
    assert [(one["rule"], one["status"]) for one in receiver.alerts] == [
        ("behind", "firing"),
        ("tables_stale", "firing"),
    ]


def test_its_limit_and_its_delay_can_be_set(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    lag_of(tables, 0, seconds_ago=200)
    longer = write_rules(tmp_path, receiver.url, settings="status_rules: {stale_after: 5m}\n")
    run = AlertRun(tables, longer)
    run.round()
    assert run.alerts == {}
    later = write_rules(
        tmp_path, receiver.url, settings="tables_stale: {for: 1m, severity: warning}\n"
    )
    run = AlertRun(tables, later)
    run.round()
    assert (run.alerts[STALE].state, run.alerts[STALE].severity) == (AlertState.PENDING, "warning")


def test_without_samples_it_does_not_fire_and_ends(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    """`run --lag-interval off` writes nothing while no group commits."""
    run = AlertRun(tables, write_rules(tmp_path, receiver.url))
    write_rows(tables, "log_offsets", [])
    lag_of(tables, 0, seconds_ago=900)
    write_rows(tables, "log_offsets", [])
    run.round()
    assert run.alerts == {}
    lag_of(tables, 0, seconds_ago=900)
    run.round()
    assert run.alerts[STALE].state is AlertState.FIRING
    write_rows(tables, "log_offsets", [])
    run.round()
    assert run.alerts[STALE].state is AlertState.FIRING
    apply_micro_batch(tables, progress=[{"updated_at": run.alerts[STALE].since}])
    run.round()
    assert run.alerts[STALE].state is AlertState.RESOLVED
