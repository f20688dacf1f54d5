"""Files of alert rules: what they may say, and what is said of one that is wrong."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from coordinator_state.insight.group_status import Status
from streaming.alerts.rules import AlertRules, fits, load_rules
from streaming.alerts.sinks import StdoutSink
from streaming.errors import ConfigurationError

SECRET = "s3cr3t"  # noqa: S105 - one that must not be shown


def rules_of(tmp_path: Path, text: str) -> AlertRules:
    file = tmp_path / "alerts.yaml"
    file.write_text(text)
    return load_rules(file)


def test_a_rule_has_defaults(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, "rules: [{name: lag, lag: '> 10'}]")
    (rule,) = rules.rules
    assert (rule.by, rule.severity, rule.hold) == ("group", "warning", timedelta(0))
    assert rule.repeat == timedelta(hours=4)
    assert rules.interval == timedelta(seconds=2)
    assert rules.sinks == {"stdout": StdoutSink(type="stdout")}
    assert rules.sinks_of(rule) == ("stdout",)


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    rules = rules_of(
        tmp_path,
        """
        interval: 1m
        sinks:
          chat: {type: slack, url: https://hooks.example/x}
          pager: {type: pagerduty, routing_key: k}
        rules:
          - name: stopped
            groups: ["pay*", "!pay-test"]
            topics: orders
            by: partition
            status: [STOP, STALL]
            lag: ">= 1000"
            time_lag: "> 1.5h"
            for: 2m
            severity: critical
            repeat: off
            sinks: [pager, chat]
            note: see the runbook
          - {name: old, tables_behind: "> 2m", sinks: chat}
        silences:
          - rules: stopped
            groups: pay-a
            from: 2026-11-22T01:00:00Z
            until: 2026-11-22T04:00:00+02:00
        inhibit:
          - {when: [old, tables_unreadable], mute: stopped, equal: []}
        tables_unreadable: {for: 5m, severity: error, sinks: [], repeat: off, note: look}
        """,
    )
    stopped, old = rules.rules
    assert stopped.status == (Status.STOP, Status.STALL)
    assert {name: (limit.operator, limit.limit) for name, limit in stopped.limits.items()} == {
        "lag": (">=", 1000),
        "time_lag": (">", 5_400_000),
    }
    assert (stopped.repeat, stopped.hold) == (None, timedelta(minutes=2))
    assert rules.sinks_of(stopped) == ("pager", "chat")
    assert rules.sinks_of(old) == ("chat",)
    own = rules.tables_unreadable
    assert (own.hold, own.severity, own.repeat) == (timedelta(minutes=5), "error", None)
    assert rules.sinks_of(own) == ()
    (silence,) = rules.silences
    assert silence.since == datetime(2026, 11, 22, 1, tzinfo=timezone.utc)
    assert silence.until == datetime(2026, 11, 22, 2, tzinfo=timezone.utc)


RULES = "rules:\n- {name: a, lag: '> 1'}\n"


def fault_of(tmp_path: Path, text: str) -> str:
    """The refusal of a file, which is one line."""
    with pytest.raises(ConfigurationError) as error:
        rules_of(tmp_path, text)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("rules: [", "alerts.yaml:1: the text ends inside a bracket: close it"),
        ("- a", "alerts.yaml: expected a mapping with the key rules"),
        ("rules: []", "alerts.yaml:1: there are no rules"),
        ("interval: 5s", "alerts.yaml:1: rules: this key is missing"),
        (f"{RULES}rules: []\n", "alerts.yaml:3: found duplicate key"),
        (f"{RULES}- {{name: a, lag: '> 2'}}\n", ":3: rules.a: two rules have the name a"),
        ("rules:\n- name: a\n  lag: 10\n", "alerts.yaml:3: rules.a.lag: 10 is not a comparison"),
        ("rules:\n- name: a\n", "alerts.yaml:2: rules.a: a rule needs one condition"),
        ("rules:\n- {name: 'a b', lag: '> 1'}\n", "alerts.yaml:2: rules.a b.name: must match"),
        (
            "rules:\n- {name: tables_unreadable, lag: '> 1'}\n",
            "alerts.yaml:2: rules.tables_unreadable: the rule name tables_unreadable is reserved",
        ),
        ("silences: [{until: 2026-13-45}]\nrules: []", "alerts.yaml: not valid YAML: ValueError"),
        ("rules: [{name: a, lag: !!bool x}]", "alerts.yaml: not valid YAML: KeyError"),
        ("rules: [{name: a, lag: !!int ''}]", "alerts.yaml: not valid YAML: IndexError"),
        ("rules: !!set ''", "alerts.yaml: not valid YAML: AttributeError"),
        ("? [{a: 1, b: 2}]\n: 1", "alerts.yaml: not valid YAML: TypeError"),
        ("sinks: {s: {type: slack, url: '${NO}'}}\n", "environment variable NO is not set"),
        ("sinks: {s: {type: slack, url: '${file:/no}'}}\n", "cannot read ${file:/no}"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, fault: str) -> None:
    assert fault in fault_of(tmp_path, text)


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ("time_lag: '> 10'", ".time_lag: '> 10' is no"),
        ("lag: '> 1', sql: SELECT 1", ": a rule needs one condition"),
        ("tables_behind: '> 1m', groups: b", ": tables_behind applies to all groups"),
        ("status: ERR", ".status: expected one or more"),
        ("status: BAD", ".status.0: must be "),
        ("lagg: '> 1'", ".lagg: unknown key"),
        ("lag: '> 1', sinks: b", ".sinks: unknown sink b"),
        ("lag: '> 1', for: 5", ".for: '5' is not a dur"),
        ("lag: '> 1', for: 999999999999d", ".for: '999999999999d' is too long"),
    ],
)
def test_the_fault_of_a_rule_names_its_key(tmp_path: Path, keys: str, fault: str) -> None:
    assert f":2: rules.a{fault}" in fault_of(tmp_path, f"rules:\n- {{name: a, {keys}}}\n")


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ("interval: 0s", ":1: interval: must be from 0.1s"),
        ("tables_unreadable: {lag: '> 1'}", ":1: tables_unreadable.lag: unknown key"),
        ("tables_unreadable: {sinks: b}", ":1: tables_unreadable.sinks: unknown sink b"),
        (
            "status_rules: {stop_after: 1m}",
            "status_rules belong to `run`, so that page, metrics and SQL agree: move them to the "
            "table [status_rules] of its config file",
        ),
        ("inhibit: [{when: b, mute: a}]", ":1: inhibit.0.when: no rule name matches b"),
        ("sinks: {s: {type: slck}}", ":1: sinks.s: 'type' must be one of 'stdout', "),
        (
            "sinks:\n  s: {type: slack, url: hooks}",
            ":2: sinks.s.slack.url: a URL must begin with",
        ),
        (
            "sinks:\n  s: {type: email, host: h, from: a, to: b, user: u}",
            ":2: sinks.s.email: set both user and password",
        ),
    ],
)
def test_the_fault_of_a_setting_names_its_key(tmp_path: Path, setting: str, fault: str) -> None:
    assert fault in fault_of(tmp_path, f"{setting}\n{RULES}")


def test_many_faults_are_not_all_told_and_a_missing_file_is(tmp_path: Path) -> None:
    rules = "\n".join(f"- {{name: r{number}, lag: 5}}" for number in range(8))
    fault = fault_of(tmp_path, f"rules:\n- {{name: good, lag: '> 5'}}\n{rules}\n")
    assert re.search(r"r4\.lag: .*; and 3 more$", fault)
    with pytest.raises(ConfigurationError, match="cannot read the rules file"):
        load_rules(tmp_path / "none.yaml")


def test_secrets_come_from_the_environment_or_a_file_and_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", f"https://hooks.example/{SECRET}")
    (tmp_path / "key").write_text(f"{SECRET}\n")
    text = f"""
    sinks:
      chat: {{type: slack, url: "${{HOOK}}"}}
      pager: {{type: pagerduty, routing_key: "${{file:{tmp_path}/key}}"}}
      hook: {{type: webhook, url: "${{HOOK}}", headers: {{Authorization: "Bearer ${{HOOK}}"}}}}
    rules:
      - {{name: a, lag: "> 1"}}
    """
    rules = rules_of(tmp_path, text)
    pager = rules.sinks["pager"]
    assert pager.routing_key.get_secret_value() == SECRET  # type: ignore[union-attr]
    assert SECRET not in repr(rules)


@pytest.mark.parametrize(
    ("patterns", "name", "does"),
    [
        (("*",), "a", True),
        (("a", "b"), "b", True),
        (("a*", "!ab"), "ab", False),
        (("!ab",), "ac", True),
        (("a?[cd]",), "abd", True),
        (("A",), "a", False),
        (("a",), None, False),
        (("*",), None, True),
    ],
)
def test_patterns(patterns: tuple[str, ...], name: str | None, does: bool) -> None:
    assert fits(patterns, name) is does
