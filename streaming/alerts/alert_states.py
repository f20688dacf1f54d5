"""State changes of alerts, and the notices that are due.

All functions are pure: the same alerts, findings and time give the same result. `replay` relies on
this to evaluate rules over past versions of the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from streaming.alerts.alert import (
    Alert,
    AlertKey,
    Alerts,
    AlertState,
    Finding,
    NoticeKind,
    Sent,
)
from streaming.alerts.rules import AlertRules, AnyRule, Inhibition, Rule, fits

KEPT_RESOLVED = timedelta(days=1)
KEPT_UNSENT = timedelta(days=7)
"""Time to keep a resolved alert while a sink has not accepted the resolved notice."""
UPDATE_AFTER = timedelta(minutes=1)
"""The minimum time between a notice and an update: a status may change back and forth."""
_NO_LONGER = "the condition no longer holds"


def next_alerts(
    alerts: Alerts,
    findings: Mapping[str, Sequence[Finding] | None],
    rules: AlertRules,
    now: datetime,
    state_of: Callable[[AlertKey], str | None] = lambda _key: None,
) -> dict[AlertKey, Alert]:
    """The alerts after one evaluation of the rules.

    Args:
        alerts: the alerts of the previous evaluation.
        findings: the findings by rule name. None if the rule could not be evaluated: its alerts
            do not change.
        rules: the current rules.
        now: the time of the evaluation.
        state_of: the current state of an alert's subject, for the reason of a resolved alert.
    """
    by_rule: dict[str, list[Alert]] = {}
    for alert in alerts.values():
        by_rule.setdefault(alert.rule, []).append(alert)
    current: list[Alert] = []
    for rule in rules.all:
        rule_findings, known = findings.get(rule.name), by_rule.pop(rule.name, [])
        if rule_findings is None:
            current += known
        else:
            current += _rule_alerts(rule, known, rule_findings, now, state_of)
    for without_rule in by_rule.values():
        for alert in without_rule:
            current += _resolved(alert, now, state_of, is_rule_removed=True)
    mutes = _Mutes(current, rules, now)
    updated = (_without_removed_sinks(mutes.applied(alert), rules) for alert in current)
    return {alert.key: alert for alert in updated if not _is_expired(alert, now)}


def due(alert: Alert, rules: AlertRules, now: datetime) -> dict[str, NoticeKind]:
    """The sinks that need a notice of an alert now, and why."""
    firing_sent = {sent.sink: sent for sent in alert.sent if sent.state is AlertState.FIRING}
    if alert.state is AlertState.RESOLVED:
        return {name: NoticeKind.NEW for name in rules.sinks if name in firing_sent}
    rule = next((rule for rule in rules.all if rule.name == alert.rule), None)
    if alert.state is AlertState.PENDING or rule is None:
        return {}
    kind_by_sink = {}
    for name in rules.sinks_of(rule):
        sink, before = rules.sinks[name], firing_sent.get(name)
        repeat = sink.repeat_of(rule.repeat)
        if alert.muted_by is not None and (before is None or not sink.is_kept_alive):
            continue
        if before is None:
            kind_by_sink[name] = NoticeKind.NEW
        elif _is_changed(alert, rule, before) and now - before.sent_at >= UPDATE_AFTER:
            kind_by_sink[name] = NoticeKind.UPDATE
        elif repeat is not None and now - before.sent_at >= repeat:
            kind_by_sink[name] = NoticeKind.REPEAT
    return kind_by_sink


def _is_changed(alert: Alert, rule: AnyRule, before: Sent) -> bool:
    """Whether a rule with `status` has an alert whose status changed since a notice."""
    if not isinstance(rule, Rule) or rule.status is None or alert.previous_status is None:
        return False
    return alert.status_since is not None and before.sent_at < alert.status_since


def _rule_alerts(
    rule: AnyRule,
    known: Collection[Alert],
    findings: Iterable[Finding],
    now: datetime,
    state_of: Callable[[AlertKey], str | None],
) -> Iterator[Alert]:
    before = {alert.key: alert for alert in known}
    for finding in findings:
        alert = before.pop(finding.key, None)
        if finding.reason is not None:
            yield _holding(rule, alert, finding, now)
        elif alert is not None:
            yield alert
    for alert in before.values():
        kept = _kept_firing(rule, alert, now)
        yield from _resolved(alert, now, state_of) if kept is None else [kept]


def _holding(rule: AnyRule, alert: Alert | None, finding: Finding, now: datetime) -> Alert:
    """The pending or firing alert of a condition that holds now."""
    if alert is None or alert.state is AlertState.RESOLVED:
        alert = Alert(
            key=finding.key,
            severity=rule.severity,
            state=AlertState.PENDING,
            since=now,
            sent=() if alert is None else alert.sent,
        )
    if alert.state is AlertState.PENDING and now - alert.since >= rule.hold:
        alert = replace(alert, state=AlertState.FIRING, fired_at=now, fired_value=finding.value)
    if alert.group_status != finding.group_status:
        alert = replace(
            alert,
            group_status=finding.group_status,
            previous_status=alert.group_status,
            status_since=now,
        )
    return replace(
        alert,
        severity=rule.severity,
        value=finding.value,
        reason=finding.reason or "",
        condition_ended_at=None,
    )


def _kept_firing(rule: AnyRule, alert: Alert, now: datetime) -> Alert | None:
    """The firing alert of a condition that ended less than `keep_firing_for` ago."""
    ended_at = alert.condition_ended_at or now
    is_kept = alert.state is AlertState.FIRING and now - ended_at < rule.keep_firing_for
    return replace(alert, condition_ended_at=ended_at) if is_kept else None


def _resolved(
    alert: Alert,
    now: datetime,
    state_of: Callable[[AlertKey], str | None],
    *,
    is_rule_removed: bool = False,
) -> list[Alert]:
    """The resolved alert; none if it was pending and no sink needs a resolved notice."""
    if alert.state is AlertState.RESOLVED:
        return [alert]
    # A sink may still need the resolved notice of an earlier firing.
    if alert.state is AlertState.PENDING and not alert.is_sent_as_firing:
        return []
    state = state_of(alert.key)
    reason = state or _NO_LONGER
    if is_rule_removed:
        reason = "the rule was removed" if state is None else f"the rule was removed; {state}"
    return [
        replace(
            alert,
            state=AlertState.RESOLVED,
            resolved_at=now,
            condition_ended_at=None,
            muted_by=None,
            value=None,
            reason=reason,
            group_status=None,
            previous_status=None,
            status_since=None,
        )
    ]


def _without_removed_sinks(alert: Alert, rules: AlertRules) -> Alert:
    """The alert without the notices of sinks that are no longer in the rules file."""
    known = tuple(sent for sent in alert.sent if sent.sink in rules.sinks)
    return alert if len(known) == len(alert.sent) else replace(alert, sent=known)


def _is_expired(alert: Alert, now: datetime) -> bool:
    if alert.state is not AlertState.RESOLVED or alert.resolved_at is None:
        return False
    kept = KEPT_UNSENT if alert.is_sent_as_firing else KEPT_RESOLVED
    return now - alert.resolved_at > kept


class _Mutes:
    """The silences and inhibitions that suppress notices now."""

    def __init__(self, alerts: Sequence[Alert], rules: AlertRules, now: datetime) -> None:
        self._silences = [
            silence
            for silence in rules.silences
            if (silence.since is None or silence.since <= now) and now < silence.until
        ]
        firing = [alert for alert in alerts if alert.state is AlertState.FIRING]
        # Keyed by the columns of `equal`: the lookup stays cheap when many groups fire at once.
        self._inhibitions = [
            (
                inhibition,
                {
                    _equal(inhibition, other): other.rule
                    for other in firing
                    if fits(inhibition.when, other.rule)
                },
            )
            for inhibition in rules.inhibit
        ]

    def applied(self, alert: Alert) -> Alert:
        """The alert with `muted_by` set to the silence or alert that mutes it, or to None."""
        muted_by = None
        if alert.state is not AlertState.RESOLVED:
            muted_by = self._silenced_by(alert) or self._inhibited_by(alert)
        return alert if muted_by == alert.muted_by else replace(alert, muted_by=muted_by)

    def _silenced_by(self, alert: Alert) -> str | None:
        for silence in self._silences:
            if (
                fits(silence.rules, alert.rule)
                and fits(silence.groups, alert.group_id)
                and fits(silence.topics, alert.topic)
            ):
                return f"silence until {silence.until.isoformat()}"
        return None

    def _inhibited_by(self, alert: Alert) -> str | None:
        for inhibition, firing in self._inhibitions:
            # An inhibition never mutes its own `when` rules: two of them would mute each other.
            if fits(inhibition.when, alert.rule) or not fits(inhibition.mute, alert.rule):
                continue
            other = firing.get(_equal(inhibition, alert))
            if other is not None:
                return f"alert {other}"
        return None


def _equal(inhibition: Inhibition, alert: Alert) -> tuple[object, ...]:
    return tuple(getattr(alert, name) for name in inhibition.equal)
