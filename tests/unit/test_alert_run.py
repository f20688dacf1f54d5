"""Runs of alert rules: what is told, kept over restarts, and done when something fails."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest
from deltalake import DeltaTable

from streaming.alerts.alert import AlertKey, AlertState
from streaming.alerts.alert_run import AlertRun
from streaming.alerts.alerts_table import read_alerts
from streaming.errors import ConfigurationError, WriterFenced
from streaming.tables.reader import TableReader
from streaming.tables.schemas import ALERTS
from tests.alert_rules import lag_of, told, write_rules
from tests.conftest import Eventually
from tests.receivers import HttpReceiver

pytestmark = pytest.mark.usefixtures("attempts_follow_soon")


@pytest.fixture
def tables(tables_that_lag: str) -> str:
    return tables_that_lag


def let_time_pass(run: AlertRun) -> None:
    """As if sinks that failed had been left alone for long enough."""
    run._patience.clear()


def test_a_restart_neither_repeats_nor_forgets(
    tables: str, rules_file: str, receiver: HttpReceiver
) -> None:
    AlertRun(tables, rules_file).round()
    assert not DeltaTable.is_deltatable(f"{tables}/alerts")
    lag_of(tables, 50)
    for _ in range(3):
        AlertRun(tables, rules_file).round()
    assert told(receiver) == ["firing"]
    assert receiver.alerts[0]["reason"] == "lag is 50 (> 10)"
    assert receiver.alerts[0]["cluster_id"] == "cluster"
    lag_of(tables, 0)
    for _ in range(3):
        AlertRun(tables, rules_file).round()
    assert told(receiver) == ["firing", "resolved"]
    (alert,) = read_alerts(TableReader(tables)).values()
    assert alert.state is AlertState.RESOLVED


def test_a_run_that_takes_over_knows_what_the_other_told_meanwhile(
    tables: str, rules_file: str, receiver: HttpReceiver, eventually: Eventually
) -> None:
    lag_of(tables, 50)
    takes_over = AlertRun(tables, rules_file)
    AlertRun(tables, rules_file).round()
    lag_of(tables, 0)
    thread = Thread(target=takes_over.run)
    thread.start()
    try:
        eventually(lambda: told(receiver) == ["firing", "resolved"])
    finally:
        takes_over.stop.set()
        thread.join()


def test_a_newer_run_ends_the_older_one(
    tables: str, rules_file: str, receiver: HttpReceiver
) -> None:
    """Also in a store, where no lock is; the older one tells nobody any more."""
    lag_of(tables, 50)
    older = AlertRun(tables, rules_file)
    older.round()
    newer = AlertRun(tables, rules_file)
    newer._keep({})
    older.alerts = {key: replace(alert, sent=()) for key, alert in older.alerts.items()}
    with pytest.raises(WriterFenced, match=r"taken over .*\(alert run on .*, process \d+"):
        older.round()
    assert told(receiver) == ["firing"]


def test_a_damaged_end_of_the_table_is_cut(tables: str, rules_file: str) -> None:
    lag_of(tables, 50)
    AlertRun(tables, rules_file).round()
    entry = max(Path(ALERTS.path(tables), "_delta_log").glob("*.json"))
    os.truncate(entry, 0)
    run = AlertRun(tables, rules_file)
    run.round()
    assert read_alerts(TableReader(tables)) == run.alerts
    assert [alert.state for alert in run.alerts.values()] == [AlertState.FIRING]


def test_the_table_is_written_when_something_changes(tables: str, rules_file: str) -> None:
    lag_of(tables, 50)
    run = AlertRun(tables, rules_file)
    for _ in range(5):
        run.round()
    # It was made at version 0 and taken over at 1; then it fires, and somebody was told.
    assert DeltaTable(f"{tables}/alerts").version() == 3


def test_how_long_a_condition_has_held_is_not_forgotten(
    tables: str, tmp_path: Path, receiver: HttpReceiver, eventually: Eventually
) -> None:
    rules = write_rules(tmp_path, receiver.url, **{"for": "1s"})
    lag_of(tables, 50)
    AlertRun(tables, rules).round()
    assert told(receiver) == []

    def told_by_a_new_run() -> bool:
        AlertRun(tables, rules).round()
        return told(receiver) == ["firing"]

    eventually(told_by_a_new_run)


def test_a_sink_that_is_down_is_told_once_it_is_back(
    tables: str, rules_file: str, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    lag_of(tables, 50)
    run = AlertRun(tables, rules_file)
    receiver.answers = [500] * 3
    run.round()
    run.round()
    assert len(receiver.answers) == 0
    assert caplog.messages == ["sink hook: 127.0.0.1 answered 500: trying again"]
    let_time_pass(run)
    run.round()
    assert told(receiver) == ["firing"]
    assert caplog.messages[1:] == ["sink hook: well again"]


def test_a_sink_that_stays_away_is_left_alone_for_longer_and_longer(
    tables: str, rules_file: str, receiver: HttpReceiver
) -> None:
    lag_of(tables, 50)
    run = AlertRun(tables, rules_file)
    receiver.answers = [500] * 24
    waits = []
    while receiver.answers:
        run.round()
        waits.append(run._patience["hook"].wait_s)
        run._patience["hook"].until = 0
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300]
    run.round()
    assert told(receiver) == ["firing"]
    assert run._patience["hook"].wait_s == 0


def test_what_cannot_be_written_is_written_later(
    tables: str, rules_file: str, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    lag_of(tables, 50)
    run = AlertRun(tables, rules_file)
    in_the_way = Path(tables, "alerts")
    in_the_way.write_text("no folder")
    run.round()
    run.round()
    assert told(receiver) == ["firing"]
    assert [m for m in caplog.messages if "cannot write" in m][1:] == []
    in_the_way.unlink()
    run.round()
    AlertRun(tables, rules_file).round()
    assert told(receiver) == ["firing"]


def test_rules_are_read_again_when_they_change(
    tables: str, tmp_path: Path, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    rules = write_rules(tmp_path, receiver.url)
    lag_of(tables, 50)
    run = AlertRun(tables, rules)
    run.round()
    write_rules(tmp_path, receiver.url, condition="lag: 10")
    run.round()
    assert caplog.messages[0].startswith("rules (the previous ones hold): ")
    assert "alerts.yaml:5: rules.behind.lag: 10 is no comparison" in caplog.messages[0]
    write_rules(tmp_path, receiver.url, condition="lag: '> 60'")
    run.round()
    assert told(receiver) == ["firing", "resolved"]
    assert caplog.messages[1:] == ["rules (the previous ones hold): well again"]


def test_tables_that_cannot_be_read_change_nothing(
    tables: str, rules_file: str, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    lag_of(tables, 50)
    run = AlertRun(tables, rules_file)
    run.round()
    log = Path(tables, "load_progress", "_delta_log")
    log.rename(f"{log}-away")
    run.round()
    run.round()
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(f"tables: {tables}/load_progress is no Delta table")
    Path(f"{log}-away").rename(log)
    run.round()
    assert told(receiver) == ["firing"]


class TestTablesUnreadable:
    """Tables that cannot be read are an alert that needs no rule."""

    @pytest.fixture
    def rules_file(self, rules_file: str) -> str:
        """Rules by which it fires at once."""
        with Path(rules_file).open("a") as file:
            file.write("tables_unreadable: {for: 0s, note: runbook}\n")
        return rules_file

    def test_it_fires_and_ends(
        self, tables: str, rules_file: str, receiver: HttpReceiver, tmp_path: Path
    ) -> None:
        lag_of(tables, 50)
        run = AlertRun(tables, rules_file)
        run.round()
        away = tmp_path / "away"
        Path(tables).rename(away)
        for _ in range(3):
            run.round()
        *_, told_last = receiver.alerts
        assert told(receiver) == ["firing", "firing"]
        assert told_last["rule"] == "tables_unreadable"
        assert told_last["severity"] == "critical"
        assert told_last["cluster_id"] == "cluster"
        assert told_last["note"] == "runbook"
        assert told_last["reason"] == (
            f"the tables cannot be read: there is no folder {tables}: coordinator-state run "
            "makes it"
        )
        # Nothing is made where the volume is missing.
        assert not Path(tables).exists()
        away.rename(tables)
        run.round()
        assert told(receiver) == ["firing", "firing", "resolved"]
        assert receiver.alerts[-1]["rule"] == "tables_unreadable"
        known = read_alerts(TableReader(tables))
        assert known[AlertKey("tables_unreadable")].state is AlertState.RESOLVED

    def test_one_table_is_enough(
        self, tables: str, rules_file: str, receiver: HttpReceiver, tmp_path: Path
    ) -> None:
        run = AlertRun(tables, rules_file)
        offsets, away = Path(tables, "group_offsets"), tmp_path / "away"
        offsets.rename(away)
        run.round()
        assert [alert["rule"] for alert in receiver.alerts] == ["tables_unreadable"]
        assert "group_offsets" in receiver.alerts[0]["reason"]
        away.rename(offsets)
        run.round()
        assert told(receiver) == ["firing", "resolved"]

    def test_rules_in_sql_are_enough(
        self,
        tables: str,
        tmp_path: Path,
        receiver: HttpReceiver,
        eventually: Eventually,
    ) -> None:
        rules = write_rules(tmp_path, receiver.url, condition="sql: FROM group_status")
        with Path(rules).open("a") as file:
            file.write("tables_unreadable: {for: 0s}\n")
        run = AlertRun(tables, rules)
        Path(tables, "groups").rename(tmp_path / "away")

        def is_told() -> bool:
            run.round()
            return [alert["rule"] for alert in receiver.alerts] == ["tables_unreadable"]

        eventually(is_told, 60)
        run._sql.close()

    def test_a_query_that_fails_is_none(
        self,
        tables: str,
        rules_file: str,
        receiver: HttpReceiver,
        eventually: Eventually,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        text = Path(rules_file).read_text()
        failing = "- name: numbers\n  sql: SELECT split_part(group_id, '-', 2)::INT FROM groups\n"
        Path(rules_file).write_text(text.replace("rules:\n", f"rules:\n{failing}"))
        run = AlertRun(tables, rules_file)

        def has_failed() -> list[str]:
            run.round()
            return caplog.messages

        assert "Conversion Error" in eventually(has_failed, 60)[0]
        assert told(receiver) == []
        run._sql.close()

    def test_the_table_of_alerts_is_not_needed(
        self, tables: str, rules_file: str, receiver: HttpReceiver
    ) -> None:
        """Neither can it be written, nor any other be read."""
        run = AlertRun(tables, rules_file)
        Path(tables, "alerts").write_text("no folder")
        log = Path(tables, "load_progress", "_delta_log")
        log.rename(f"{log}-away")
        for _ in range(3):
            run.round()
        assert told(receiver) == ["firing"]
        Path(f"{log}-away").rename(log)
        for _ in range(3):
            run.round()
        assert told(receiver) == ["firing", "resolved"]

    def test_a_table_that_was_not_written_is_not_well(
        self, tables: str, rules_file: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        run = AlertRun(tables, rules_file)
        in_the_way = Path(tables, "alerts")
        in_the_way.write_text("no folder")
        lag_of(tables, 50)
        run.round()
        Path(tables).rename(tmp_path / "away")
        run.round()
        said = [line for line in caplog.messages if line.startswith("the table alerts")]
        assert len(said) == 1
        (tmp_path / "away").rename(tables)
        in_the_way.unlink()
        run.round()
        assert caplog.messages[-1] == "the table alerts: well again"

    def test_a_restart_knows_of_it(
        self, tables: str, rules_file: str, receiver: HttpReceiver
    ) -> None:
        """It was told, the process ended, and the tables came back."""
        lag_of(tables, 50)
        run = AlertRun(tables, rules_file)
        run.round()
        log = Path(tables, "load_progress", "_delta_log")
        log.rename(f"{log}-away")
        run.round()
        Path(f"{log}-away").rename(log)
        AlertRun(tables, rules_file).round()
        assert told(receiver) == ["firing", "firing", "resolved"]

    def test_a_short_outage_is_not_told(
        self, tables: str, tmp_path: Path, receiver: HttpReceiver
    ) -> None:
        run = AlertRun(tables, write_rules(tmp_path, receiver.url))
        log = Path(tables, "load_progress", "_delta_log")
        log.rename(f"{log}-away")
        run.round()
        pending = run.alerts[AlertKey("tables_unreadable")]
        assert pending.state is AlertState.PENDING
        Path(f"{log}-away").rename(log)
        run.round()
        assert run.alerts == {}
        assert told(receiver) == []


def test_sql_that_fails_is_told_before_anything_runs(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    rules = write_rules(tmp_path, receiver.url, condition="sql: SELECT nothing FROM group_lag")
    with pytest.raises(ConfigurationError, match="rule behind: Binder Error"):
        AlertRun(tables, rules)


def test_sql_that_some_data_makes_fail_is_no_reason_to_stop(
    tables: str, tmp_path: Path, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    sql = "SELECT split_part(group_id, '-', 2)::INT AS value FROM groups"
    rules = write_rules(tmp_path, receiver.url)
    with Path(rules).open("a") as file:
        file.write(f"- name: numbers\n  sql: {sql}\n")
    lag_of(tables, 50)
    run = AlertRun(tables, rules)
    run.round()
    run.round()
    assert told(receiver) == ["firing"]
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("rule numbers: Conversion Error")


def test_rules_with_wrong_sql_are_not_taken(
    tables: str, tmp_path: Path, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    rules = write_rules(tmp_path, receiver.url)
    lag_of(tables, 50)
    run = AlertRun(tables, rules)
    write_rules(tmp_path, receiver.url, condition="sql: SELEC")
    run.round()
    assert "Parser Error" in caplog.messages[0]
    assert told(receiver) == ["firing"]


def test_a_notice_that_is_refused_holds_back_no_other(
    tables: str, tmp_path: Path, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    rules = write_rules(tmp_path, receiver.url)
    with Path(rules).open("a") as file:
        file.write("- {name: also, lag: '> 20'}\n")
    lag_of(tables, 50)
    run = AlertRun(tables, rules)
    receiver.answers = [400, 400]
    run.round()
    assert [alert["rule"] for alert in receiver.alerts] == ["also"]
    assert caplog.messages == ["sink hook: 127.0.0.1 answered 400: trying again"]
    let_time_pass(run)
    run.round()
    assert [alert["rule"] for alert in receiver.alerts] == ["also", "behind"]


def test_alertmanager_hears_of_it_while_the_tables_cannot_be_read(
    tables: str, tmp_path: Path, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.alerts.sinks._ALERTMANAGER_RESEND", timedelta(0))
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


def test_a_sink_of_any_kind_of_failure_ends_nothing(
    tables: str, tmp_path: Path, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    rules = Path(write_rules(tmp_path, receiver.url))
    bad = "bad: {type: webhook, url: 'http://a..b/s3cr3t'}"
    worse = f"worse: {{type: webhook, url: '{receiver.url}', headers: {{X: s3cr3t\u2019}}}}"
    rules.write_text(rules.read_text().replace("{hook:", f"{{{bad}, {worse}, hook:"))
    lag_of(tables, 50)
    run = AlertRun(tables, str(rules))
    run.round()
    assert told(receiver) == ["firing"]
    assert sorted(message.split(":")[0] for message in caplog.messages) == [
        "sink bad",
        "sink worse",
    ]
    assert "s3cr3t" not in caplog.text


def test_old_versions_of_the_table_go(
    tables: str, rules_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.alerts.alert_run._TIDY_EVERY_S", 0)
    monkeypatch.setattr("streaming.alerts.alerts_table.KEPT_HOURS", 0)
    lag_of(tables, 50)
    run = AlertRun(tables, rules_file)
    run.round()
    run.round()
    assert list(Path(tables, "alerts", "_delta_log").glob("*.checkpoint.parquet"))
    assert len(list(Path(tables, "alerts").glob("*.parquet"))) == 1
    assert AlertRun(tables, rules_file).alerts == run.alerts
