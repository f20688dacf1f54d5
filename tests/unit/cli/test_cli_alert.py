"""The commands `alert run`, `alert send-test` and `alert test`."""

from __future__ import annotations

import signal
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from streaming.alerts.alert_run import LOCK_FILE
from streaming.alerts.replay import replay
from streaming.alerts.rules import load_rules
from streaming.local.broker.configuration import free_port
from streaming.tables.folder import locked
from streaming.tables.reader import TableReader
from tests.support.brokers.receivers import HttpReceiver
from tests.support.clients.command_line import call, json_lines
from tests.support.clients.installed_command import command_of
from tests.support.eventually import Eventually
from tests.support.tables.alert_rules import lag_of, sent_statuses, write_rules
from tests.support.tables.status_tables import VERSION


@pytest.fixture
def tables(tables_that_lag: str) -> str:
    return tables_that_lag


def a_second_passes(eventually: Eventually) -> None:
    later = datetime.now(timezone.utc) + timedelta(seconds=1)
    eventually(lambda: datetime.now(timezone.utc) > later)


@pytest.mark.long
def test_the_command_runs_until_it_is_told_to_stop(
    tables: str, rules_file: str, receiver: HttpReceiver, eventually: Eventually
) -> None:
    """`unit/alerts/test_alert_run.py` has restarts."""
    lag_of(tables, 50)
    command = command_of("alert", "run", "--rules-file", rules_file, "--tables", tables)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            eventually(lambda: sent_statuses(receiver) == ["firing"])
        finally:
            process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 0
    (line,) = stderr.splitlines()
    assert line.endswith(f"Z {rules_file}: 1 rules over {tables}, sinks: hook")
    (row,) = json_lines(call("show", "alerts", "--tables", tables, "--output", "json"))
    assert (row["rule"], row["group_id"], row["state"]) == ("behind", "g", "firing")


def test_one_runs_at_a_time(tables: str, rules_file: str) -> None:
    command = ("alert", "run", "--rules-file", rules_file, "--tables", tables)
    with locked(tables, LOCK_FILE, "alert run"):
        refused = call(*command, exit_code=2)
    assert f"another alert run is writing to {tables}" in refused.stderr


def test_what_is_wrong_is_one_line(tables: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("rules:\n- name: a\n")
    for command in ("run", "test"):
        arguments = ("alert", command, "--rules-file", str(bad), "--tables", tables)
        (line,) = call(*arguments, exit_code=2).stderr.splitlines()
        assert line.startswith(f"Error: {bad}:2: rules.a: a rule needs")


def test_each_sink_gets_one_test_notice_and_says_whether_it_accepted(
    tmp_path: Path, receiver: HttpReceiver
) -> None:
    rules = Path(write_rules(tmp_path, receiver.url))
    away = f"http://127.0.0.1:{free_port()}/s3cr3t"
    sinks = f"away: {{type: slack, url: '{away}'}}, hook:"
    rules.write_text(rules.read_text().replace("hook:", sinks))
    command = ("alert", "send-test", "--rules-file", str(rules), "--output", "json")
    away_row, hook_row = json_lines(call(*command, exit_code=1))
    assert (away_row["sink"], away_row["is_accepted"]) == ("away", False)
    assert away_row["error"].startswith("127.0.0.1: Connect")
    assert "s3cr3t" not in str(away_row)
    assert hook_row == {"sink": "hook", "is_accepted": True, "error": None}
    (notice,) = receiver.alerts
    assert (notice["rule"], notice["severity"], notice["cluster_id"], notice["status"]) == (
        *("test_notice", "info"),
        *("test", "firing"),
    )
    assert "nothing is wrong" in notice["reason"]

    (row,) = json_lines(call(*command[:2], "hook", *command[2:]))
    assert row["is_accepted"]
    refused = call(*command[:2], "hok", *command[2:], exit_code=2)
    assert "has no sink hok; did you mean hook?" in refused.stderr


def test_rules_are_tested_against_the_past(
    tables: str, tmp_path: Path, eventually: Eventually
) -> None:
    rules = write_rules(tmp_path, "http://127.0.0.1:1/", **{"for": "0.5s"})
    arguments = ("alert", "test", "--rules-file", rules, "--tables", tables, "--output", "json")
    before = datetime.now(timezone.utc)
    lag_of(tables, 50)
    a_second_passes(eventually)
    fires = datetime.now(timezone.utc)
    changes = json_lines(call(*arguments, exit_code=1))
    assert [row["state"] for row in changes] == ["pending", "firing"]
    assert changes[-1]["reason"] == "lag is 50 (> 10)"
    lag_of(tables, 0)
    a_second_passes(eventually)
    assert json_lines(call(*arguments)) == []
    # And as it was, without a trace in the tables.
    (*_, last) = json_lines(call(*arguments, "--as-of", fires.isoformat(), exit_code=1))
    assert (last["state"], last["group_id"], last["value"]) == ("firing", "g", 50)
    changes = json_lines(call(*arguments, "--since", before.isoformat(), "--step", "0.2s"))
    assert [row["state"] for row in changes] == ["pending", "firing", "resolved"]
    # The resolved line has the current state, as the notices of `alert run` do.
    assert changes[-1]["reason"] == "now OK: caught up"
    assert json_lines(call(*arguments, "behind", "--as-of", before.isoformat())) == []
    for rule, hint in (("other", "; the rules are behind"), ("behnd", "; did you mean behind?")):
        assert f"has no rule {rule}{hint}" in call(*arguments, rule, exit_code=2).stderr
    assert not Path(tables, "alerts").exists()


def test_a_past_version_is_looked_at_when_it_was_written(tables: str, tmp_path: Path) -> None:
    rules = write_rules(tmp_path, "http://127.0.0.1:1/")
    lag_of(tables, 50)
    version = TableReader(tables).version
    lag_of(tables, 0)
    arguments = ("alert", "test", "--rules-file", rules, "--tables", tables, "--output", "json")
    (row,) = json_lines(call(*arguments, "--as-of", str(version), exit_code=1))
    assert (row["state"], row["value"]) == ("firing", 50)


def test_the_past_begins_where_the_tables_do(tables: str, tmp_path: Path) -> None:
    rules = load_rules(write_rules(tmp_path, "http://127.0.0.1:1/"))
    now = datetime.now(timezone.utc)
    lag_of(tables, 50)
    period: dict[str, Any] = {"since": now - timedelta(days=1), "step": timedelta(hours=5)}
    assert list(replay(rules, TableReader(tables, as_of=now), **period)) == []
    (change,) = replay(rules, TableReader(tables), **period)
    assert change.alert.reason == "lag is 50 (> 10)"


def test_the_past_is_tested_by_other_limits(status_tables: str, tmp_path: Path) -> None:
    rules, limits = tmp_path / "alerts.yaml", tmp_path / "run.toml"
    rules.write_text("rules: [{name: loops, status: REBALANCING_LOOP}]\n")
    limits.write_text("[status_rules]\nrebalances = 60\n")
    arguments = (
        *("alert", "test", "--rules-file", str(rules), "--tables", status_tables),
        *("--as-of", str(VERSION), "--output", "json"),
    )
    (row,) = json_lines(call(*arguments, exit_code=1))
    assert (row["state"], row["group_id"]) == ("firing", "loop")
    assert json_lines(call(*arguments, "--status-rules", str(limits))) == []
    for content, fault in (
        ("", " has no table [status_rules]"),
        ("[status_rules]\nstop = 1", ": status_rules: unknown limit stop"),
    ):
        limits.write_text(content)
        refused = call(*arguments, "--status-rules", str(limits), exit_code=2)
        assert f"config file {limits}{fault}" in refused.stderr
