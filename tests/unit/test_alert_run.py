"""Runs of alert rules: what is told, kept over restarts, and done when something fails."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from streaming.alerts.alert import AlertState
from streaming.alerts.alert_run import LOCK_FILE, AlertRun
from streaming.alerts.alerts_table import read_alerts
from streaming.alerts.replay import replay
from streaming.alerts.rules_file import load_rules
from streaming.errors import ConfigurationError
from streaming.tables.folder import locked
from streaming.tables.reader import TableReader
from tests.command_line import call, json_lines
from tests.integration.command_line import command_of
from tests.receivers import HttpReceiver, http_receiver
from tests.tables_folder import apply_micro_batch, create_tables, write_rows


def lag_of(folder: str, lag: int) -> None:
    """A group that is behind by so much now, by samples of now."""
    now = datetime.now(timezone.utc)
    apply_micro_batch(
        folder,
        progress=[{"updated_at": now}],
        groups=[{"group_id": "g", "state": "Stable", "member_count": 1}],
        group_offsets=[
            {
                **{"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 1_000 - lag},
                "commit_timestamp": now,
            }
        ],
    )
    write_rows(
        folder,
        "log_offsets",
        [
            {
                **{"topic": topic, "partition": 0, "state": "present", "topic_id": "T"},
                **{"sampled_at": now - timedelta(seconds=ago), "day": now.date()},
                **{"log_start_offset": 0, "log_end_offset": end, "last_stable_offset": end},
            }
            for ago in (40, 0)
            for topic, end in (("t", 1_000), ("__consumer_offsets", 0))
        ],
    )


@pytest.fixture
def tables(tmp_path: Path) -> str:
    folder = create_tables(tmp_path / "tables")
    lag_of(folder, 0)
    return folder


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with http_receiver() as found:
        yield found


@pytest.fixture(autouse=True)
def attempts_follow_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.alerts.sinks._FIRST_WAIT_S", 0.01)
    monkeypatch.setattr("streaming.alerts.sinks._LONGEST_WAIT_S", 0.05)


@pytest.fixture
def rules_file(tmp_path: Path, receiver: HttpReceiver) -> str:
    return write_rules(tmp_path, receiver.url)


def write_rules(folder: Path, url: str, condition: str = "lag: '> 10'", **more: str) -> str:
    file = folder / "alerts.yaml"
    rule = {"note": "x", **more}
    file.write_text(
        f"interval: 0.2s\nsinks: {{hook: {{type: webhook, url: '{url}'}}}}\n"
        f"rules:\n- name: behind\n  {condition}\n"
        + "".join(f"  {name}: {value}\n" for name, value in rule.items())
    )
    return str(file)


def let_time_pass(run: AlertRun) -> None:
    """As if sinks that failed had been left alone for long enough."""
    run._patience.clear()


def told(receiver: HttpReceiver) -> list[str]:
    return [alert["status"] for alert in receiver.alerts]


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


def test_the_table_is_written_when_something_changes(tables: str, rules_file: str) -> None:
    lag_of(tables, 50)
    run = AlertRun(tables, rules_file)
    for _ in range(5):
        run.round()
    # Once that it fires, once that somebody was told.
    assert DeltaTable(f"{tables}/alerts").version() == 1


def test_how_long_a_condition_has_held_is_not_forgotten(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    rules = write_rules(tmp_path, receiver.url, **{"for": "1s"})
    lag_of(tables, 50)
    AlertRun(tables, rules).round()
    time.sleep(1)
    assert told(receiver) == []
    AlertRun(tables, rules).round()
    assert told(receiver) == ["firing"]


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
    assert caplog.messages[0].startswith("rules (those of before hold): ")
    assert "alerts.yaml:5: rules.behind.lag: 10 is no comparison" in caplog.messages[0]
    write_rules(tmp_path, receiver.url, condition="lag: '> 60'")
    run.round()
    assert told(receiver) == ["firing", "resolved"]
    assert caplog.messages[1:] == ["rules (those of before hold): well again"]


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
    # What is told every minute is not written every minute.
    assert DeltaTable(f"{tables}/alerts").version() == 1


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
    monkeypatch.setattr("streaming.alerts.alerts_table.KEPT_HOURS", 168)
    lag_of(tables, 50)
    run = AlertRun(tables, rules_file)
    run.round()
    run.round()
    assert list(Path(tables, "alerts", "_delta_log").glob("*.checkpoint.parquet"))
    assert AlertRun(tables, rules_file).alerts == run.alerts


# --- the commands --------------------------------------------------------------------------------


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command_of(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(holds: Callable[[], Any], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_command_goes_on_where_it_was_killed(
    tables: str, rules_file: str, receiver: HttpReceiver
) -> None:
    command = ("alert", "run", "--rules-file", rules_file, "--tables", tables)
    lag_of(tables, 50)
    with running(*command):
        until(lambda: told(receiver) == ["firing"])
        until(lambda: any(alert.sent for alert in read_alerts(TableReader(tables)).values()))
    with running(*command) as process:
        lag_of(tables, 0)
        until(lambda: len(receiver.alerts) > 1)
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=30)
        assert process.returncode == 0
    assert told(receiver) == ["firing", "resolved"]
    assert stderr.splitlines() == [f"{rules_file}: 1 rules over {tables}, to hook"]
    (row,) = json_lines(call("show", "alerts", "--tables", tables, "--output", "json"))
    assert (row["rule"], row["group_id"], row["state"]) == ("behind", "g", "resolved")


def test_one_runs_at_a_time(tables: str, rules_file: str) -> None:
    command = ("alert", "run", "--rules-file", rules_file, "--tables", tables)
    with locked(tables, LOCK_FILE):
        refused = call(*command, exit_code=2)
    assert f"another run is writing to {tables}" in refused.stderr


def test_what_is_wrong_is_one_line(tables: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("rules:\n- name: a\n")
    for command in ("run", "test"):
        arguments = ("alert", command, "--rules-file", str(bad), "--tables", tables)
        result = call(*arguments, exit_code=2)
        assert result.stderr.splitlines()[0].startswith(f"Error: {bad}:2: rules.a: a rule has")
        assert len(result.stderr.splitlines()) == 1
    result = call(
        *("alert", "test", "--rules-file", str(bad), "--tables", str(tmp_path / "no")), exit_code=2
    )
    assert len(result.stderr.splitlines()) == 1


def test_rules_are_tested_against_the_past(tables: str, tmp_path: Path) -> None:
    rules = write_rules(tmp_path, "http://127.0.0.1:1/", **{"for": "0.5s"})
    arguments = ("alert", "test", "--rules-file", rules, "--tables", tables, "--output", "json")
    assert json_lines(call(*arguments)) == []
    before = datetime.now(timezone.utc)
    lag_of(tables, 50)
    time.sleep(1)
    fires = datetime.now(timezone.utc)
    found = json_lines(call(*arguments, exit_code=1))
    assert [row["state"] for row in found] == ["pending", "firing"]
    assert found[-1]["reason"] == "lag is 50 (> 10)"
    lag_of(tables, 0)
    time.sleep(1)
    assert json_lines(call(*arguments)) == []
    # And as it was, without a trace in the tables.
    (*_, last) = json_lines(call(*arguments, "--as-of", fires.isoformat(), exit_code=1))
    assert (last["state"], last["group_id"], last["value"]) == ("firing", "g", 50)
    changes = json_lines(call(*arguments, "--since", before.isoformat(), "--step", "0.1s"))
    assert [row["state"] for row in changes] == ["pending", "firing", "resolved"]
    assert json_lines(call(*arguments, "behind", "--as-of", before.isoformat())) == []
    # By version, all that version has counts.
    at_once = write_rules(tmp_path, "http://127.0.0.1:1/")
    version = TableReader(tables, as_of=fires).version
    (row,) = json_lines(call(*arguments, "--as-of", str(version), exit_code=1))
    assert (row["state"], at_once) == ("firing", rules)
    result = call(*arguments, "other", exit_code=2)
    assert "there is no rule other; there are behind" in result.stderr
    assert not Path(tables, "alerts").exists()


def test_the_past_begins_where_the_tables_do(tables: str, tmp_path: Path) -> None:
    rules = load_rules(write_rules(tmp_path, "http://127.0.0.1:1/"))
    now = datetime.now(timezone.utc)
    lag_of(tables, 50)
    long_ago = now - timedelta(days=1)
    last = TableReader(tables, as_of=now)
    assert list(replay(rules, last, since=long_ago, step=timedelta(hours=5))) == []
    (found,) = replay(rules, TableReader(tables), since=long_ago, step=timedelta(hours=5))
    assert found.alert.reason == "lag is 50 (> 10)"
