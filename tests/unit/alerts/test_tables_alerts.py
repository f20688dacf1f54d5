"""Tables that cannot be read, or that nobody writes any more, are alerts that need no rule."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from coordinator_state.insight.group_status import StatusRules
from streaming.alerts.alert import AlertKey, AlertState
from streaming.alerts.alert_run import AlertRun
from streaming.alerts.alerts_table import read_alerts
from streaming.alerts.sinks import AlertmanagerSink
from streaming.tables.creation import set_properties
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS, PROPERTY_STATUS_RULES
from streaming.tables.status_rules import status_rules_text
from streaming.tables.writer_epoch import WriterEpoch
from tests.support.brokers.receivers import HttpReceiver
from tests.support.eventually import Eventually
from tests.support.tables.alert_rules import lag_of, sent_statuses, write_rules
from tests.support.tables.tables_folder import apply_micro_batch, write_rows


@pytest.fixture
def rules_file(tmp_path: Path, receiver: HttpReceiver) -> str:
    """Rules by which it fires at once."""
    settings = "tables_unreadable: {for: 0s, note: runbook}\n"
    return write_rules(tmp_path, receiver.url, settings=settings)


@pytest.fixture
def run(tables: str, rules_file: str) -> AlertRun:
    """A run that has sent a notice about a group that is behind."""
    lag_of(tables, 50)
    run = AlertRun(tables, rules_file)
    run.round()
    return run


@contextmanager
def moved_away(*path: str) -> Iterator[None]:
    """The folder is somewhere else while the block runs."""
    away = Path(*path).rename(Path(f"{Path(*path)}-away"))
    yield
    away.rename(Path(*path))


def test_unreadable_tables_fire_and_end(tables: str, run: AlertRun, receiver: HttpReceiver) -> None:
    with moved_away(tables):
        for _ in range(3):
            run.round()
        # Nothing is made where the volume is missing.
        assert not Path(tables).exists()
    assert sent_statuses(receiver) == ["firing", "firing"]
    last = receiver.alerts[-1]
    assert (last["rule"], last["severity"]) == ("tables_unreadable", "critical")
    assert (last["cluster_id"], last["note"]) == ("cluster", "runbook")
    assert last["reason"] == (
        f"the tables cannot be read: there is no folder {tables}: coordinator-state run creates it"
    )
    run.round()
    assert sent_statuses(receiver) == ["firing", "firing", "resolved"]
    assert receiver.alerts[-1]["rule"] == "tables_unreadable"
    known = read_alerts(TableReader(tables))
    assert known[AlertKey("tables_unreadable")].state is AlertState.RESOLVED
    # One table is enough.
    with moved_away(tables, "group_offsets"):
        run.round()
    assert "group_offsets" in receiver.alerts[-1]["reason"]
    run.round()
    assert sent_statuses(receiver)[3:] == ["firing", "resolved"]


def test_rules_in_sql_are_enough(
    tables: str, tmp_path: Path, receiver: HttpReceiver, eventually: Eventually
) -> None:
    settings = "tables_unreadable: {for: 0s}\n"
    sql = "sql: FROM group_status"
    run = AlertRun(tables, write_rules(tmp_path, receiver.url, sql, settings=settings))

    def is_told() -> bool:
        run.round()
        return [alert["rule"] for alert in receiver.alerts] == ["tables_unreadable"]

    with moved_away(tables, "groups"):
        eventually(is_told, 60)
    run._sql.close()


def test_the_table_of_alerts_is_not_needed(
    tables: str, rules_file: str, receiver: HttpReceiver
) -> None:
    """Neither can it be written, nor any other be read."""
    run = AlertRun(tables, rules_file)
    Path(tables, "alerts").write_text("no folder")
    with moved_away(tables, "load_progress", "_delta_log"):
        for _ in range(3):
            run.round()
    assert sent_statuses(receiver) == ["firing"]
    for _ in range(3):
        run.round()
    assert sent_statuses(receiver) == ["firing", "resolved"]


def test_a_restart_knows_that_tables_were_unreadable(
    tables: str, rules_file: str, run: AlertRun, receiver: HttpReceiver
) -> None:
    with moved_away(tables, "load_progress", "_delta_log"):
        run.round()
    AlertRun(tables, rules_file).round()
    assert sent_statuses(receiver) == ["firing", "firing", "resolved"]


def test_a_short_outage_is_logged_once_and_not_told(
    tables: str, tmp_path: Path, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    lag_of(tables, 50)
    run = AlertRun(tables, write_rules(tmp_path, receiver.url))
    run.round()
    with moved_away(tables, "load_progress", "_delta_log"):
        run.round()
        run.round()
    assert run.alerts[AlertKey("tables_unreadable")].state is AlertState.PENDING
    (message,) = caplog.messages
    assert message.startswith(f"tables: {tables}/load_progress is not a Delta table")
    run.round()
    assert list(run.alerts) == [AlertKey("behind", "g")]
    assert sent_statuses(receiver) == ["firing"]


def test_alertmanager_hears_of_it_while_the_tables_cannot_be_read(
    tables: str, tmp_path: Path, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AlertmanagerSink, "kept_alive_every", timedelta(0))
    rules = Path(write_rules(tmp_path, receiver.url))
    rules.write_text(rules.read_text().replace("webhook", "alertmanager"))
    lag_of(tables, 50)
    run = AlertRun(tables, str(rules))
    run.round()
    Path(tables, "load_progress").rename(Path(tables, "away"))
    run.round()
    assert len(receiver.posted) == 2
    # That the tables cannot be read is news.
    version = DeltaTable(f"{tables}/alerts").version()
    assert version == 4
    run.round()
    assert len(receiver.posted) == 3
    # What is told every minute is not written every minute.
    assert DeltaTable(f"{tables}/alerts").version() == version


# --- stale tables

STALE = AlertKey("tables_stale")


def test_stale_tables_fire_two_minutes_after_the_last_write(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    run = AlertRun(tables, write_rules(tmp_path, receiver.url))
    lag_of(tables, 0, seconds_ago=30)
    run.round()
    assert sent_statuses(receiver) == []
    lag_of(tables, 0, seconds_ago=121)
    run.round()
    run.round()
    (notice,) = receiver.alerts
    assert (notice["rule"], notice["severity"]) == ("tables_stale", "critical")
    since = r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC"
    assert re.fullmatch(rf"nothing written since {since}; is `run` running\?", notice["reason"])
    assert notice["value"] >= 121_000
    lag_of(tables, 0)
    run.round()
    assert sent_statuses(receiver) == ["firing", "resolved"]


def test_the_limit_and_the_delay_of_staleness_can_be_set(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    lag_of(tables, 0, seconds_ago=200)
    settings = "tables_stale: {for: 1m, severity: warning}\n"
    run = AlertRun(tables, write_rules(tmp_path, receiver.url, settings=settings))
    for stale_after_ms in (300_000, 120_000):
        assert run.alerts == {}
        limits = status_rules_text(StatusRules(stale_after_ms=stale_after_ms))
        epoch = WriterEpoch.current(tables)
        set_properties(epoch, LOAD_PROGRESS, {PROPERTY_STATUS_RULES: limits})
        run.round()
    assert (run.alerts[STALE].state, run.alerts[STALE].severity) == (AlertState.PENDING, "warning")


def test_without_samples_quiet_tables_are_not_stale(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    """`run --lag-interval off` writes nothing while no group commits."""
    run = AlertRun(tables, write_rules(tmp_path, receiver.url))
    lag_of(tables, 0, seconds_ago=900)
    write_rows(tables, "log_offsets", [])
    run.round()
    assert run.alerts == {}
    lag_of(tables, 0, seconds_ago=900)
    run.round()
    write_rows(tables, "log_offsets", [])
    run.round()
    assert run.alerts[STALE].state is AlertState.FIRING
    apply_micro_batch(tables, progress=[{"updated_at": run.alerts[STALE].since}])
    run.round()
    assert run.alerts[STALE].state is AlertState.RESOLVED
