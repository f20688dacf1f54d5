"""What rules would have said in the past: the same rules over the tables as they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from streaming.alerts.alert import Alert, AlertKey, AlertState, Finding
from streaming.alerts.alert_states import next_alerts
from streaming.alerts.facts import Facts, sql_findings
from streaming.alerts.rules import AlertRules, Rule
from streaming.alerts.sql_rules import SqlRules
from streaming.tables.reader import TableReader

MOST_LOOKS = 60
_NOT_FOR_LONG = "the condition did not hold for long enough"


@dataclass(frozen=True, slots=True)
class Change:
    """An alert that went to another state at a moment."""

    at: datetime
    alert: Alert


def replay(
    rules: AlertRules, last: TableReader, *, since: datetime, step: timedelta
) -> Iterator[Change]:
    """Look at the tables as of one moment after the other; nobody is told and nothing is kept.

    Args:
        rules: the rules.
        last: the tables as of the last moment.
        since: the first one; moments before the tables begin are passed over.
        step: the time between two of them.

    Raises:
        ConfigurationError: a rule's SQL is not valid, fails, or takes more than it may.
    """
    alerts: dict[AlertKey, Alert] = {}
    with closing(SqlRules(last.tables)) as sql:
        sql.check(rules.rules)
        for at in _moments(since, last.moment, step):
            reader = last if at == last.moment else last.before(at)
            if reader is None:
                continue
            facts = Facts(reader, at, rules.status_rules)
            findings = {rule.name: findings_of(rule, facts, sql) for rule in rules.rules}
            before, alerts = alerts, next_alerts(alerts, findings, rules, at)
            yield from _changes(before, alerts, at)


def findings_of(rule: Rule, facts: Facts, sql: SqlRules) -> list[Finding]:
    """Of what the condition of any rule holds.

    Raises:
        ConfigurationError: the rule's SQL fails, or takes more than it may.
    """
    if rule.sql is None:
        return facts.findings(rule)
    return sql_findings(rule, sql.answer_now(rule, facts.snapshot))


def replay_step(rules: AlertRules, span: timedelta) -> timedelta:
    """The rules' own interval, or a longer one where that would be many looks."""
    return max(rules.interval, span / MOST_LOOKS)


def _moments(since: datetime, until: datetime, step: timedelta) -> Iterator[datetime]:
    """From the last one back by whole steps, until the first one or a little before; in order."""
    looks = max(-((since - until) // step), 0)
    return (until - number * step for number in range(looks, -1, -1))


def _changes(
    before: Mapping[AlertKey, Alert], after: Mapping[AlertKey, Alert], at: datetime
) -> Iterator[Change]:
    for key, alert in after.items():
        was = before.get(key)
        if was is None or was.state is not alert.state:
            yield Change(at, alert)
    for key, alert in before.items():
        if key not in after and alert.state is AlertState.PENDING:
            ended = replace(alert, state=AlertState.RESOLVED, resolved_at=at, reason=_NOT_FOR_LONG)
            yield Change(at, ended)
