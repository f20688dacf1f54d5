"""`coordinator-state alert`; its Python twins are in `streaming.alerts`."""

from __future__ import annotations

import click

from streaming.cli.options import (
    Duration,
    as_of_option,
    option,
    output_option,
    tables_option,
)
from streaming.run.signals import stop_on_signals
from streaming.run.stderr import write_note
from streaming.views.output import output_of

EXIT_FIRING = 1

rules_file_option = option(
    "--rules-file",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False),
    help="The rules, in YAML: see docs/alerts.md.",
)


@click.group()
def alert() -> None:
    """Alerts by rules in YAML: what has to hold, for how long, and who is told.

    The Python twins are in streaming.alerts.

    \b
    Examples:
      coordinator-state alert run --rules-file alerts.yaml --tables tables
      coordinator-state alert test --rules-file alerts.yaml --tables tables
    """


@alert.command()
@rules_file_option
@tables_option
def run(*, rules_file: str, tables: str) -> None:
    """Look at the tables again and again, and tell the sinks.

    What fires, and who was told, is kept in the table alerts (coordinator-state show alerts), so
    that a restart neither repeats nor forgets. The file is read again when it changes. Ctrl-C and
    SIGTERM let the notices under way be sent. The Python twin is
    streaming.alerts.alert_run.AlertRun.

    \b
    Examples:
      coordinator-state alert run --rules-file alerts.yaml --tables tables
    """
    from streaming.alerts.alert_run import AlertRun

    with stop_on_signals() as stop:
        alerts = AlertRun(tables, rules_file, stop)
        write_note(
            f"{rules_file}: {len(alerts.rules.rules)} rules over {tables}, "
            f"to {', '.join(alerts.rules.sinks)}"
        )
        alerts.run()


@alert.command()
@click.argument("rule", required=False)
@rules_file_option
@tables_option
@as_of_option
@option(
    "--since",
    metavar="TIME",
    help="From when on. [default: as long before as the rules' `for`]",
)
@option("--step", type=Duration(), help="Time between two looks. [default: 60 looks at most]")
@output_option
@click.pass_context
def test(
    ctx: click.Context,
    /,
    *,
    rule: str | None,
    rules_file: str,
    tables: str,
    as_of: str | None,
    since: str | None,
    step: float | None,
    output: str,
) -> None:
    """What RULE, or every rule, says now, or would have said: nobody is told, nothing is kept.

    Shows when alerts went to another state. Exit status 1 if any fires at the end. The Python twin
    is streaming.alerts.replay.replay.

    \b
    Examples:
      coordinator-state alert test --rules-file alerts.yaml --tables tables
      coordinator-state alert test stopped --rules-file alerts.yaml --tables tables --as-of 17
      coordinator-state alert test --rules-file alerts.yaml --tables tables --since 2026-11-21
    """
    from datetime import datetime, timedelta

    from streaming.alerts.alert import Alert, AlertKey, AlertState
    from streaming.alerts.replay import replay, replay_step
    from streaming.alerts.rules_file import load_rules
    from streaming.errors import ConfigurationError
    from streaming.tables.reader import TableReader, parse_as_of

    rules = load_rules(rules_file)
    names = [one.name for one in rules.rules]
    if rule is not None and rule not in names:
        raise ConfigurationError(f"there is no rule {rule}; there are {', '.join(names)}")
    reader = TableReader(tables, as_of=None if as_of is None else parse_as_of(as_of))
    until = reader.moment
    begin = until - max(one.hold for one in rules.rules)
    if since is not None:
        parsed = parse_as_of(since)
        if not isinstance(parsed, datetime):
            raise click.UsageError("--since is a time", ctx)
        begin = parsed
    span = replay_step(rules, until - begin) if step is None else timedelta(seconds=step)
    last: dict[AlertKey, Alert] = {}
    rows = []
    for change in replay(rules, reader, since=begin, step=span):
        told = change.alert
        # The others may mute it.
        if rule not in (None, told.rule):
            continue
        last[told.key] = told
        rows.append(
            {
                "at": change.at,
                "state": told.state.value,
                "severity": told.severity,
                **told.key._asdict(),
                "value": told.value,
                "reason": told.reason,
                "muted_by": told.muted_by,
            }
        )
    columns = ("at", "state", "severity", *AlertKey._fields, "value", "reason", "muted_by")
    output_of(output).rows(rows, columns)
    if any(told.state is AlertState.FIRING for told in last.values()):
        ctx.exit(EXIT_FIRING)
