"""How alerts go from state to state, and who is to be told.

Pure: the same alerts, findings and time give the same answer, so what a run does can be replayed
from tables of the past.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from streaming.alerts.alert import Alert, AlertKey, Alerts, AlertState, Finding
from streaming.alerts.rules import AlertRules, AnyRule, Inhibition, fits

KEPT_RESOLVED = timedelta(days=1)
KEPT_UNTOLD = timedelta(days=7)
"""For so long a sink that is away may hear of an end that it missed."""


def next_alerts(
    alerts: Alerts,
    findings: Mapping[str, Sequence[Finding] | None],
    rules: AlertRules,
    now: datetime,
) -> dict[AlertKey, Alert]:
    """The alerts after a look at the tables.

    Args:
        alerts: those of before.
        findings: by rule; None where the rule could not be looked at, whose alerts stay as they
            are.
        rules: the rules as they are now.
        now: when the tables were looked at.
    """
    found: dict[AlertKey, Alert] = {}
    by_rule: dict[str, list[Alert]] = {}
    for alert in alerts.values():
        by_rule.setdefault(alert.rule, []).append(alert)
    for rule in rules.all:
        of_rule, known = findings.get(rule.name), by_rule.pop(rule.name, [])
        if of_rule is None:
            found |= {alert.key: alert for alert in known}
        else:
            found |= _of_rule(rule, known, of_rule, now)
    for gone in (alert for left in by_rule.values() for alert in left):
        ended = _ended(gone, now, "the rule is gone")
        if ended is not None:
            found[ended.key] = ended
    mutes = _Mutes(found, rules, now)
    left = (_of_known_sinks(mutes.applied(alert), rules) for alert in found.values())
    return {alert.key: alert for alert in left if not _is_over(alert, now)}


def due(alert: Alert, rules: AlertRules, now: datetime) -> dict[str, bool]:
    """The sinks that are to be told of an alert now, and whether they have been told before."""
    found = {}
    last = {sent.sink: sent for sent in alert.sent}
    rule = next((rule for rule in rules.all if rule.name == alert.rule), None)
    for name, sink in rules.sinks.items():
        before = last.get(name)
        is_known = before is not None and before.state is AlertState.FIRING
        if alert.state is AlertState.RESOLVED:
            if is_known:
                found[name] = False
        elif alert.state is AlertState.FIRING and rule is not None:
            is_muted = alert.muted_by is not None
            if is_muted and not (is_known and sink.is_kept_alive):
                continue
            repeat = sink.repeat_of(rule.repeat)
            if name not in rules.sinks_of(rule):
                continue
            if before is None or not is_known:
                found[name] = False
            elif repeat is not None and now - before.sent_at >= repeat:
                found[name] = True
    return found


def _of_rule(
    rule: AnyRule, known: Collection[Alert], findings: Iterable[Finding], now: datetime
) -> dict[AlertKey, Alert]:
    before = {alert.key: alert for alert in known}
    found: dict[AlertKey, Alert] = {}
    for finding in findings:
        alert = before.pop(finding.key, None)
        if finding.reason is None:
            if alert is not None:
                found[finding.key] = alert
        else:
            found[finding.key] = _holding(rule, alert, finding, now)
    for alert in before.values():
        ended = _ended(alert, now, "the condition does not hold any more")
        if ended is not None:
            found[ended.key] = ended
    return found


def _holding(rule: AnyRule, alert: Alert | None, finding: Finding, now: datetime) -> Alert:
    """The alert of a condition that holds now."""
    is_new = alert is None or alert.state is AlertState.RESOLVED
    if alert is None or is_new:
        alert = Alert(
            key=finding.key,
            severity=rule.severity,
            state=AlertState.PENDING,
            since=now,
            sent=() if alert is None else alert.sent,
        )
    if alert.state is AlertState.FIRING:
        return replace(alert, severity=rule.severity)
    has_held = now - alert.since >= rule.hold
    if not has_held and not is_new:
        return alert
    return replace(
        alert,
        state=AlertState.FIRING if has_held else AlertState.PENDING,
        fired_at=now if has_held else None,
        severity=rule.severity,
        value=finding.value,
        reason=finding.reason or "",
    )


def _ended(alert: Alert, now: datetime, reason: str) -> Alert | None:
    """The alert after its condition, None where nobody will ask for it."""
    if alert.state is AlertState.PENDING:
        # An earlier time may not have been told as over yet.
        if not alert.is_told_as_firing:
            return None
    elif alert.state is AlertState.RESOLVED:
        return alert
    return replace(
        alert, state=AlertState.RESOLVED, resolved_at=now, muted_by=None, value=None, reason=reason
    )


def _of_known_sinks(alert: Alert, rules: AlertRules) -> Alert:
    """The alert without what sinks were told that there are no more."""
    known = tuple(sent for sent in alert.sent if sent.sink in rules.sinks)
    return alert if len(known) == len(alert.sent) else replace(alert, sent=known)


def _is_over(alert: Alert, now: datetime) -> bool:
    if alert.state is not AlertState.RESOLVED or alert.resolved_at is None:
        return False
    kept = KEPT_UNTOLD if alert.is_told_as_firing else KEPT_RESOLVED
    return now - alert.resolved_at > kept


class _Mutes:
    """What keeps alerts from being told: silences, and other alerts that fire."""

    def __init__(self, alerts: Alerts, rules: AlertRules, now: datetime) -> None:
        self._silences = [
            silence
            for silence in rules.silences
            if (silence.since is None or silence.since <= now) and now < silence.until
        ]
        firing = [alert for alert in alerts.values() if alert.state is AlertState.FIRING]
        # By what has to be equal: any number of groups may fire at once.
        self._inhibitions = [
            (
                one,
                {_equal(one, other): other.rule for other in firing if fits(one.when, other.rule)},
            )
            for one in rules.inhibit
        ]

    def applied(self, alert: Alert) -> Alert:
        """The alert with what keeps it from being told, if anything does."""
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
            # Those that mute are not muted by it: two of them would mute each other.
            if fits(inhibition.when, alert.rule) or not fits(inhibition.mute, alert.rule):
                continue
            other = firing.get(_equal(inhibition, alert))
            if other is not None:
                return f"alert {other}"
        return None


def _equal(inhibition: Inhibition, alert: Alert) -> tuple[object, ...]:
    return tuple(getattr(alert, name) for name in inhibition.equal)
