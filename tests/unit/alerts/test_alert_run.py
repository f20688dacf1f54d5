"""Runs of alert rules: what is told, kept over restarts, and done when something fails."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from deltalake import DeltaTable, write_deltalake

from streaming.alerts import alert_run
from streaming.alerts.alert import AlertState
from streaming.alerts.alert_run import AlertRun
from streaming.alerts.alerts_table import open_alerts, read_alerts, write_alerts
from streaming.errors import WriterFenced
from streaming.local.broker.configuration import free_port
from streaming.tables.reader import TableReader
from streaming.tables.schemas import ALERTS
from streaming.views.lists import alerts
from streaming.views.query import query
from streaming.views.snapshot import Snapshot
from tests.support.brokers.receivers import HttpReceiver, http_receiver
from tests.support.eventually import Eventually
from tests.support.tables.alert_rules import lag_of, sent_statuses, write_rules


@pytest.fixture
def run(tables: str, rules_file: str) -> AlertRun:
    """A run over a group that is behind, before its first round."""
    lag_of(tables, 50)
    return AlertRun(tables, rules_file)


def test_a_restart_neither_repeats_nor_forgets(
    tables: str, rules_file: str, receiver: HttpReceiver
) -> None:
    AlertRun(tables, rules_file).round()
    assert not DeltaTable.is_deltatable(f"{tables}/alerts")
    lag_of(tables, 50)
    for _ in range(3):
        AlertRun(tables, rules_file).round()
    assert sent_statuses(receiver) == ["firing"]
    assert receiver.alerts[0]["reason"] == "lag is 50 (> 10)"
    assert receiver.alerts[0]["cluster_id"] == "cluster"
    lag_of(tables, 0)
    for _ in range(3):
        AlertRun(tables, rules_file).round()
    assert sent_statuses(receiver) == ["firing", "resolved"]
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
        eventually(lambda: sent_statuses(receiver) == ["firing", "resolved"])
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
    newer._update({})
    older.alerts = {key: replace(alert, sent=()) for key, alert in older.alerts.items()}
    with pytest.raises(WriterFenced, match=r"taken over .*\(alert run on .*, process \d+"):
        older.round()
    assert sent_statuses(receiver) == ["firing"]


def test_a_damaged_end_of_the_table_is_cut(tables: str, rules_file: str) -> None:
    lag_of(tables, 50)
    AlertRun(tables, rules_file).round()
    entry = max(Path(ALERTS.path(tables), "_delta_log").glob("*.json"))
    os.truncate(entry, 0)
    run = AlertRun(tables, rules_file)
    run.round()
    assert read_alerts(TableReader(tables)) == run.alerts
    assert [alert.state for alert in run.alerts.values()] == [AlertState.FIRING]


def test_how_long_a_condition_has_held_is_not_forgotten(
    tables: str, tmp_path: Path, receiver: HttpReceiver, eventually: Eventually
) -> None:
    rules = write_rules(tmp_path, receiver.url, **{"for": "1s"})
    lag_of(tables, 50)
    AlertRun(tables, rules).round()
    assert sent_statuses(receiver) == []

    def told_by_a_new_run() -> bool:
        AlertRun(tables, rules).round()
        return sent_statuses(receiver) == ["firing"]

    eventually(told_by_a_new_run)


def test_a_sink_that_is_down_is_told_once_it_is_back(
    run: AlertRun, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    """However long it was down: each pause is a few seconds."""
    assert waits_of_refusals(run, receiver, [503] * 9) == [3] * 9
    assert caplog.messages == ["sink hook: 127.0.0.1 answered 503; retrying"]
    run._back_offs["hook"].until = 0
    run.round()
    assert sent_statuses(receiver) == ["firing"]
    assert run._back_offs["hook"].pause_s == 0
    assert caplog.messages[1:] == ["sink hook: recovered"]


def waits_of_refusals(run: AlertRun, receiver: HttpReceiver, answers: list[int]) -> list[float]:
    """The pause after each of these answers; no request is made during a pause."""
    receiver.answers = answers
    waits = []
    while (left := len(receiver.answers)) > 0:
        run.round()
        run.round()
        assert len(receiver.answers) == left - 1
        waits.append(run._back_offs["hook"].pause_s)
        run._back_offs["hook"].until = 0
    return waits


@pytest.mark.parametrize("code", [400, 429, 500])
def test_a_sink_that_refuses_is_left_alone_for_longer_and_longer(
    run: AlertRun, receiver: HttpReceiver, code: int
) -> None:
    waits = waits_of_refusals(run, receiver, [code] * 8)
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300]
    run.round()
    assert sent_statuses(receiver) == ["firing"]


@pytest.mark.parametrize("outage_s", [1, 4])
def test_after_an_outage_what_still_fires_is_sent_within_10_s(
    tables: str, tmp_path: Path, eventually: Eventually, outage_s: float
) -> None:
    """Nothing listens at the address of the sink while the alert begins to fire."""
    port = free_port()
    rules = write_rules(tmp_path, f"http://127.0.0.1:{port}")
    lag_of(tables, 50)
    run = AlertRun(tables, rules)
    thread = Thread(target=run.run)
    thread.start()
    try:
        eventually(lambda: "sink hook" in run._failures)
        time.sleep(outage_s)
        with http_receiver(port) as receiver:
            back_at = time.monotonic()
            eventually(lambda: sent_statuses(receiver) == ["firing"])
            assert time.monotonic() - back_at < 10
    finally:
        run.stop.set()
        thread.join()


def test_the_most_severe_and_newest_alert_is_sent_first(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    more = "- {name: info, lag: '> 1', severity: info}\n"
    more += "- {name: page, lag: '> 1', severity: critical}\n"
    rules = write_rules(tmp_path, receiver.url, settings=more)
    lag_of(tables, 50)
    run = AlertRun(tables, rules)
    run.round()
    assert [alert["rule"] for alert in receiver.alerts] == ["page", "behind", "info"]
    rows = query(alerts().sql, Snapshot(TableReader(tables))).to_pylist()
    assert [row["rule"] for row in rows] == ["page", "behind", "info"]


def test_what_cannot_be_written_is_written_later(
    tables: str,
    rules_file: str,
    run: AlertRun,
    receiver: HttpReceiver,
    caplog: pytest.LogCaptureFixture,
) -> None:
    in_the_way = Path(tables, "alerts")
    in_the_way.write_text("no folder")
    run.round()
    run.round()
    assert sent_statuses(receiver) == ["firing"]
    assert [m for m in caplog.messages if "cannot write" in m][1:] == []
    in_the_way.unlink()
    run.round()
    AlertRun(tables, rules_file).round()
    assert sent_statuses(receiver) == ["firing"]


def test_rules_are_read_again_when_they_change(
    run: AlertRun, tmp_path: Path, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    run.round()
    write_rules(tmp_path, receiver.url, condition="lag: 10")
    run.round()
    assert caplog.messages[0].startswith("rules file (the previous rules stay active): ")
    assert "alerts.yaml:5: rules.behind.lag: 10 is not a comparison" in caplog.messages[0]
    write_rules(tmp_path, receiver.url, condition="sql: SELEC")
    run.round()
    assert "Parser Error" in caplog.messages[1]
    write_rules(tmp_path, receiver.url, condition="lag: '> 60'")
    run.round()
    assert sent_statuses(receiver) == ["firing", "resolved"]
    assert caplog.messages[2:] == ["rules file (the previous rules stay active): recovered"]


def test_sql_that_some_data_makes_fail_is_no_reason_to_stop(
    tables: str, tmp_path: Path, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    sql = "SELECT split_part(group_id, '-', 2)::INT AS value FROM groups"
    settings = f"- name: numbers\n  sql: {sql}\ntables_unreadable: {{for: 0s}}\n"
    rules = write_rules(tmp_path, receiver.url, settings=settings)
    lag_of(tables, 50)
    run = AlertRun(tables, rules)
    run.round()
    run.round()
    # The fault is in the query: the tables can be read.
    assert [alert["rule"] for alert in receiver.alerts] == ["behind"]
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("rule numbers: Conversion Error")


def test_a_notice_that_is_refused_holds_back_no_other(
    tables: str, tmp_path: Path, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    also = "- {name: also, lag: '> 20'}\n"
    rules = write_rules(tmp_path, receiver.url, settings=also)
    lag_of(tables, 50)
    run = AlertRun(tables, rules)
    receiver.answers = [400, 400]
    run.round()
    assert [alert["rule"] for alert in receiver.alerts] == ["also"]
    assert caplog.messages == ["sink hook: 127.0.0.1 answered 400; retrying"]
    run._back_offs.clear()
    run.round()
    assert [alert["rule"] for alert in receiver.alerts] == ["also", "behind"]


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
    assert sent_statuses(receiver) == ["firing"]
    assert sorted(message.split(":")[0] for message in caplog.messages) == [
        "sink bad",
        "sink worse",
    ]
    assert "s3cr3t" not in caplog.text


def test_old_versions_of_the_table_go(
    tables: str, rules_file: str, run: AlertRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.alerts.alert_run._CLEAN_UP_EVERY_S", 0)
    monkeypatch.setattr("streaming.alerts.alerts_table.KEPT_HOURS", 0)
    run.round()
    run.round()
    assert list(Path(tables, "alerts", "_delta_log").glob("*.checkpoint.parquet"))
    assert len(list(Path(tables, "alerts").glob("*.parquet"))) == 1
    assert AlertRun(tables, rules_file).alerts == run.alerts


# --- groups that go from one bad status to another


BY_STATUS = "status: [DATA_LOSS, TOPIC_GONE]"


def lose_records(tables: str) -> None:
    lag_of(tables, 50, log_start_offset=970)


def test_from_rule_to_rule_the_new_one_is_told_first_and_the_old_one_names_it(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    gone = "- {name: gone, status: TOPIC_GONE, keep_firing_for: 0s}\n"
    rules = write_rules(tmp_path, receiver.url, "status: DATA_LOSS", name="lost", settings=gone)
    run = AlertRun(tables, rules)
    lose_records(tables)
    run.round()
    lag_of(tables, 50, end=None)
    run.round()
    assert [(alert["rule"], alert["status"]) for alert in receiver.alerts] == [
        *(("lost", "firing"), ("gone", "firing"), ("lost", "resolved")),
    ]
    assert receiver.alerts[-1]["reason"] == (
        "now TOPIC_GONE: the topic does not exist; committed offset 950 remains"
    )
    lag_of(tables, 0)
    run.round()
    resolved = receiver.alerts[-1]
    assert (resolved["rule"], resolved["status"]) == ("gone", "resolved")
    assert resolved["reason"] == "now OK: caught up"


def test_a_rule_that_is_removed_does_not_make_the_group_well(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    lose_records(tables)
    AlertRun(tables, write_rules(tmp_path, receiver.url, BY_STATUS)).round()
    AlertRun(tables, write_rules(tmp_path, receiver.url, "status: STOP", name="other")).round()
    assert receiver.alerts[-1]["status"] == "resolved"
    assert receiver.alerts[-1]["reason"].startswith("the rule was removed; now DATA_LOSS: ")


def test_new_values_alone_are_written_once_a_minute(
    tables: str, run: AlertRun, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.round()
    version = DeltaTable(ALERTS.path(tables)).version()
    lag_of(tables, 60)
    run.round()
    assert [alert.reason for alert in run.alerts.values()] == ["lag is 60 (> 10)"]
    assert DeltaTable(ALERTS.path(tables)).version() == version
    with monkeypatch.context() as patched:
        patched.setattr(alert_run, "_VALUES_EVERY_S", 0)
        # The value does not change any more, and is not written yet.
        run.round()
        (alert,) = read_alerts(TableReader(tables)).values()
        assert (alert.value, alert.fired_value, alert.reason) == (60, 50, "lag is 60 (> 10)")
        run.round()
        assert DeltaTable(ALERTS.path(tables)).version() == version + 1
    lose_records(tables)
    run.round()
    (alert,) = read_alerts(TableReader(tables)).values()
    assert (alert.group_status, alert.reason) == ("DATA_LOSS", "lag is 50 (> 10)")
    assert sent_statuses(receiver) == ["firing"]
    lag_of(tables, 0, group_id="other")
    run.round()
    assert receiver.alerts[-1]["reason"] == "the group is deleted"


def test_a_table_of_an_earlier_release_gets_the_columns(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    rules = write_rules(tmp_path, receiver.url, BY_STATUS)
    lose_records(tables)
    AlertRun(tables, rules).round()
    path = ALERTS.path(tables)
    later = ["group_status", "previous_status", "status_since"]
    earlier = TableReader(tables).read(ALERTS.name).drop_columns(later)
    write_deltalake(path, earlier, mode="overwrite", schema_mode="overwrite")
    assert "group_status" not in {field.name for field in DeltaTable(path).schema().fields}
    (alert,) = read_alerts(TableReader(tables)).values()
    assert (alert.state, alert.group_status) == (AlertState.FIRING, None)
    write_alerts(open_alerts(tables), {alert.key: alert})
    AlertRun(tables, rules).round()
    (alert,) = read_alerts(TableReader(tables)).values()
    assert alert.group_status == "DATA_LOSS"
    assert sent_statuses(receiver) == ["firing"]
