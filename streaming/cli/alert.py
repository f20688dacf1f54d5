"""The command `coordinator-state alert`; its Python API is `streaming.alerts`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from streaming.cli.opened_tables import opened_tables
from streaming.cli.options import (
    DURATION,
    as_of_option,
    exit_with_difference,
    option,
    optional_tables_option,
    output_option,
    status_rules_in,
    tables_option,
    usage_error,
)
from streaming.cli.signals import stop_on_signals
from streaming.run.progress_display import LiveLine
from streaming.run.stderr import is_live, warnings_only, write_dated_note
from streaming.views.output import Output

rules_file_option = partial(option, "--rules-file", metavar="FILE", type=click.Path(dir_okay=False))
_RULES_FILE = "YAML file with the alert rules, see docs/alerts.md."


@click.group()
def alert() -> None:
    """Run or test the alert rules and the sinks of a YAML file.

    A rule sets a condition, how long it must hold, and the sinks that are notified. Python API:
    streaming.alerts.

    \b
    Examples:
      coordinator-state alert run --rules-file alerts.yaml --tables tables
      coordinator-state alert send-test --rules-file alerts.yaml
      coordinator-state alert test --rules-file alerts.yaml --tables tables
      coordinator-state alert test --scenario scenario.yaml
    """


@alert.command()
@rules_file_option(required=True, help=_RULES_FILE)
@tables_option
def run(*, rules_file: str, tables: str) -> None:
    """Evaluate the rules periodically, and send notices to the sinks.

    The table alerts (coordinator-state show alerts) keeps the alerts and the notices that were
    sent. A restart therefore neither repeats nor loses a notice. A changed rules file is reloaded.
    On Ctrl-C or SIGTERM the command finishes the notices that it is sending. Python API:
    streaming.alerts.alert_run.AlertRun.

    \b
    Examples:
      coordinator-state alert run --rules-file alerts.yaml --tables tables
    """
    from streaming.alerts.alert_run import AlertRun

    with stop_on_signals() as stop:
        alerts = AlertRun(tables, rules_file, stop)
        write_dated_note(
            f"{rules_file}: {len(alerts.rules.rules)} rules over {tables}, "
            f"sinks: {', '.join(alerts.rules.sinks)}"
        )
        alerts.run()


@alert.command("send-test")
@click.argument("sink", required=False)
@rules_file_option(required=True, help=_RULES_FILE)
@output_option
def send_test(*, sink: str | None, rules_file: str, output: Output) -> None:
    """Send one test notice to SINK, or to every sink, and show which sinks accept it.

    The notice is of the rule test_notice and the cluster "test", and says that nothing is wrong. No
    failure is retried. PagerDuty keeps the test open until somebody resolves it. Exits with status
    1 if a sink does not accept the notice. Python API: streaming.alerts.send_test.send_test.

    \b
    Examples:
      coordinator-state alert send-test --rules-file alerts.yaml
      coordinator-state alert send-test pager --rules-file alerts.yaml
    """
    from streaming.alerts.rules import load_rules
    from streaming.alerts.send_test import SinkAnswer
    from streaming.alerts.send_test import send_test as send_test_notices
    from streaming.errors import ConfigurationError, did_you_mean

    sinks = load_rules(rules_file).sinks
    if sink is not None and sink not in sinks:
        similar = did_you_mean(sink, sinks) or f"; the sinks are {', '.join(sinks)}"
        raise ConfigurationError(f"{rules_file} has no sink {sink}{similar}")
    chosen = sinks if sink is None else {sink: sinks[sink]}
    rows = [delivery._asdict() for delivery in send_test_notices(chosen)]
    output.rows(rows, SinkAnswer._fields)
    if not all(row["is_accepted"] for row in rows):
        exit_with_difference()


@alert.command()
@click.argument("rule", required=False)
@rules_file_option(help=f"{_RULES_FILE} [default with --scenario: the rules of docs/scenarios.md]")
@optional_tables_option()
@option(
    "--scenario",
    "scenario_files",
    metavar="FILE",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="YAML scenario to play instead of reading tables, see docs/scenarios.md; may be repeated.",
)
@as_of_option
@option(
    "--since",
    metavar="TIME",
    help="Start of the replay. [default: its end minus the longest `for` of the rules]",
)
@option(
    "--step",
    type=DURATION,
    help="Time between two evaluations. [default: at most 60 evaluations]",
)
@click.option(
    # The variable and the key of that name have the limits of `run`.
    "--status-rules",
    "status_rules_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Config file whose [status_rules] are the limits of the statuses. [default: the limits of "
    "`run`]",
)
@output_option
def test(
    *,
    rule: str | None,
    rules_file: str | None,
    tables: str | None,
    scenario_files: tuple[str, ...],
    as_of: str | None,
    since: str | None,
    step: float | None,
    status_rules_file: Path | None,
    output: Output,
) -> None:
    """Evaluate RULE, or every rule, over past snapshots, without notices and without writes.

    Shows each change of an alert's state, and the progress on stderr. Exits with status 1 if an
    alert fires at the end. Python API: streaming.alerts.replay.replay.

    With --scenario it plays a cluster in virtual time, and compares statuses, causes and alerts
    with the expectations of the file. It prints a line for each one that fails, and then exits with
    status 1. Python API: streaming.local.scenario.judging.judge.

    \b
    Examples:
      coordinator-state alert test --rules-file alerts.yaml --tables tables
      coordinator-state alert test stopped --rules-file alerts.yaml --tables tables --as-of 17
      coordinator-state alert test --rules-file alerts.yaml --tables tables --since 2026-11-21
      coordinator-state alert test --rules-file alerts.yaml --tables tables --status-rules run.toml
      coordinator-state alert test --scenario scenario.yaml
      coordinator-state alert test --scenario scenario.yaml --rules-file alerts.yaml --output json
    """
    if scenario_files:
        if tables is not None or rule is not None:
            raise usage_error("--scenario plays its own tables, and tests all rules")
        if _test_scenarios(scenario_files, rules_file, output):
            exit_with_difference()
        return
    if tables is None or rules_file is None:
        raise usage_error("give --tables and --rules-file, or --scenario")
    from datetime import timedelta

    from streaming.alerts.alert import AlertKey, AlertState
    from streaming.alerts.replay import replay, replay_step
    from streaming.alerts.rules import load_rules
    from streaming.errors import ConfigurationError, did_you_mean
    from streaming.tables.as_of import parse_time

    rules = load_rules(rules_file)
    limits = None if status_rules_file is None else status_rules_in(status_rules_file)
    names = [alert_rule.name for alert_rule in rules.rules]
    if rule is not None and rule not in names:
        similar = did_you_mean(rule, names) or f"; the rules are {', '.join(names)}"
        raise ConfigurationError(f"{rules_file} has no rule {rule}{similar}")
    reader = opened_tables(tables, as_of)
    until = reader.moment
    begin = until - max(alert_rule.hold for alert_rule in rules.rules)
    if since is not None:
        begin = parse_time(since)
    span = replay_step(rules, until - begin) if step is None else timedelta(seconds=step)
    # A short replay needs no progress.
    with LiveLine(is_terminal=is_live(), first_after_s=3) as line:
        changes = list(
            replay(
                rules,
                reader,
                since=begin,
                step=span,
                status_rules=limits,
                on_moment=lambda done, of: line.show(f"{done} of {of} moments evaluated"),
            )
        )
    # All rules are evaluated, because another rule may mute this one.
    changes = [change for change in changes if rule in (None, change.alert.rule)]
    rows = [
        {
            "at": change.at,
            "state": change.alert.state.value,
            "severity": change.alert.severity,
            **change.alert.key._asdict(),
            "value": change.alert.value,
            "reason": change.alert.reason,
            "muted_by": change.alert.muted_by,
        }
        for change in changes
    ]
    columns = ("at", "state", "severity", *AlertKey._fields, "value", "reason", "muted_by")
    output.rows(rows, columns)
    last = {change.alert.key: change.alert for change in changes}
    if any(alert.state is AlertState.FIRING for alert in last.values()):
        exit_with_difference()


def _test_scenarios(files: Sequence[str], rules_file: str | None, output: Output) -> bool:
    """Play scenarios and show the expectations that fail; returns whether any does."""
    from streaming.alerts.rules import default_rules, load_rules
    from streaming.errors import ConfigurationError
    from streaming.local.scenario.judging import judge
    from streaming.local.scenario.scenario import load_scenario

    rules = default_rules() if rules_file is None else load_rules(rules_file)
    rule_names = [rule.name for rule in rules.rules]
    scenarios = [load_scenario(file, rule_names) for file in files]
    names = [scenario.name for scenario in scenarios]
    if len({*names}) < len(names):
        raise ConfigurationError("two scenarios have the same name: give them a key name")
    with warnings_only(), LiveLine(is_terminal=is_live(), first_after_s=3) as line:
        judged = judge(
            scenarios, rules, on_look=lambda look, _cluster: line.show(f"{look.t} s played")
        )
    failures = [failure for each in judged for failure in each.failures]
    right = sum(not each.failures for each in judged)
    rows = [failure._asdict() for failure in failures]
    text = [failure.line for failure in failures]
    output.result(
        {"scenarios": len(judged), "right": right, "failures": rows},
        "\n".join([*text, f"{right} of {len(judged)} scenarios are right"]),
    )
    return bool(failures)
