"""`alert test`: evaluates rules over past versions of the tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from coordinator_state.insight.group_status import StatusRules
from streaming.alerts.alert import Alert, AlertKey, AlertState, Finding
from streaming.alerts.alert_states import next_alerts
from streaming.alerts.facts import Facts, sql_findings
from streaming.alerts.rules import AlertRules, Rule
from streaming.alerts.sql_rules import SqlRules
from streaming.lag.group_lag import RATE_WINDOWS
from streaming.lag.paces import KnownPaces
from streaming.lag.status_history import groups_with_status
from streaming.tables.reader import TableReader

MAX_EVALUATIONS = 60
_TOO_SHORT = "the condition did not hold for long enough"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an alert's state."""

    at: datetime
    alert: Alert


def replay(
    rules: AlertRules,
    last: TableReader,
    *,
    since: datetime,
    step: timedelta,
    group_ids: Collection[str] | None = None,
    status_rules: StatusRules | None = None,
    on_moment: Callable[[int, int], None] = lambda _done, _of: None,
) -> Iterator[Change]:
    """Evaluate the rules at each moment of a time span; sends and writes nothing.

    Args:
        rules: the rules.
        last: the tables as of the last moment.
        since: the first moment; moments before the first version of the tables are skipped.
        step: the time between two moments.
        group_ids: the groups that the rules look at; all groups if None. Few of them take much less
            time. Not for rules in SQL. If each rule has a status, only groups that had one of these
            statuses are evaluated, by the changes that `run` recorded.
        status_rules: the limits of statuses; by default those of the last run.
        on_moment: called after a moment with the number of moments so far, and of all moments.

    Raises:
        ConfigurationError: a rule's SQL is not valid, fails, or exceeds its limits.
    """
    alerts: dict[AlertKey, Alert] = {}
    # What one moment has read, the next one need not read.
    known = KnownPaces()
    with closing(SqlRules(last.tables)) as sql:
        sql.check(rules.rules)
        moments = _moments(since, last.moment, step)
        # A snapshot shows how far the tables were behind, unlike tables that are rebuilt.
        prefers_snapshots = group_ids is None
        if status_rules is None:
            group_ids = _groups_to_evaluate(rules, last, moments[0], group_ids)
        past = last.with_history(
            since=moments[0] - RATE_WINDOWS[0],
            group_ids=group_ids,
            prefers_snapshots=prefers_snapshots,
        )
        for number, at in enumerate(moments):
            if number:
                on_moment(number, len(moments))
            reader = last if at == last.moment else past.before(at)
            if reader is None:
                continue
            facts = Facts(reader, at, status_rules, group_ids, known)
            findings = {rule.name: findings_of(rule, facts, sql) for rule in rules.rules}
            before = alerts
            alerts = next_alerts(alerts, findings, rules, at, facts.state_of)
            yield from _changes(before, alerts, at)


def _groups_to_evaluate(
    rules: AlertRules, last: TableReader, since: datetime, group_ids: Collection[str] | None
) -> Collection[str] | None:
    """Of the groups that the rules look at, those that may have a finding; None for all groups.

    A rule with a status needs only groups that had it, by the changes that `run` recorded.
    """
    if any(rule.status is None and rule.tables_behind is None for rule in rules.rules):
        return group_ids
    statuses = {status for rule in rules.rules for status in rule.status or ()}
    suspects = groups_with_status(last, statuses, since=since, until=last.moment)
    if suspects is None or group_ids is None:
        return suspects
    return suspects.intersection(group_ids)


def findings_of(rule: Rule, facts: Facts, sql: SqlRules) -> list[Finding]:
    """The findings of a rule, with or without SQL.

    Raises:
        ConfigurationError: the rule's SQL fails, or exceeds its limits.
    """
    if rule.sql is None:
        return facts.findings(rule)
    return sql_findings(rule, sql.answer_now(rule, facts.snapshot))


def replay_step(rules: AlertRules, span: timedelta) -> timedelta:
    """The interval of the rules, or a longer step so that 60 evaluations cover the span."""
    return max(rules.interval, span / MAX_EVALUATIONS)


def _moments(since: datetime, until: datetime, step: timedelta) -> Sequence[datetime]:
    """The moments in order: whole steps back from `until`, the first at or just before `since`."""
    steps = max(-((since - until) // step), 0)
    return [until - number * step for number in range(steps, -1, -1)]


def _changes(
    before: Mapping[AlertKey, Alert], after: Mapping[AlertKey, Alert], at: datetime
) -> Iterator[Change]:
    for key, alert in after.items():
        was = before.get(key)
        if was is None or was.state is not alert.state:
            yield Change(at, alert)
    for key, alert in before.items():
        if key not in after and alert.state is AlertState.PENDING:
            resolved = replace(alert, state=AlertState.RESOLVED, resolved_at=at, reason=_TOO_SHORT)
            yield Change(at, resolved)
