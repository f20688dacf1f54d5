"""How alerts go from state to state, and who is to be told.

Pure: the same alerts, findings and time give the same answer, so what a run does can be replayed
from tables of the past.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from streaming.alerts.alert import Alert, AlertKey, Alerts, AlertState, Finding
from streaming.alerts.rules import AlertRules, Rule, fits

KEPT_RESOLVED = timedelta(days=1)


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
    for rule in rules.rules:
        of_rule, known = findings.get(rule.name), by_rule.pop(rule.name, [])
        if of_rule is None:
            found |= {alert.key: alert for alert in known}
        else:
            found |= _of_rule(rule, known, of_rule, now)
    for gone in (alert for left in by_rule.values() for alert in left):
        ended = _ended(gone, now, "the rule is gone")
        if ended is not None:
            found[ended.key] = ended
    found = {key: _muted(alert, found, rules, now) for key, alert in found.items()}
    return {key: alert for key, alert in found.items() if not _is_over(alert, now)}


def due(alert: Alert, rules: AlertRules, sinks: Iterable[str], now: datetime) -> dict[str, bool]:
    """The sinks that are to be told of an alert now, and whether they have been told before."""
    found = {}
    last = {sent.sink: sent for sent in alert.sent}
    rule = next((rule for rule in rules.rules if rule.name == alert.rule), None)
    for name in sinks:
        before = last.get(name)
        is_known = before is not None and before.state is AlertState.FIRING
        if alert.state is AlertState.RESOLVED:
            if is_known:
                found[name] = False
        elif alert.state is AlertState.FIRING and alert.muted_by is None and rule is not None:
            repeat = rules.sinks[name].repeat_of(rule.repeat)
            if name not in rules.sinks_of(rule):
                continue
            if before is None or not is_known:
                found[name] = False
            elif repeat is not None and now - before.sent_at >= repeat:
                found[name] = True
    return found


def _of_rule(
    rule: Rule, known: Collection[Alert], findings: Iterable[Finding], now: datetime
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


def _holding(rule: Rule, alert: Alert | None, finding: Finding, now: datetime) -> Alert:
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


def _is_over(alert: Alert, now: datetime) -> bool:
    if alert.state is not AlertState.RESOLVED or alert.is_told_as_firing:
        return False
    return alert.resolved_at is not None and now - alert.resolved_at > KEPT_RESOLVED


def _muted(alert: Alert, alerts: Alerts, rules: AlertRules, now: datetime) -> Alert:
    """The alert with what keeps it from being told, if anything does."""
    muted_by = None
    if alert.state is not AlertState.RESOLVED:
        muted_by = _silence(alert, rules, now) or _inhibition(alert, alerts, rules)
    return alert if muted_by == alert.muted_by else replace(alert, muted_by=muted_by)


def _silence(alert: Alert, rules: AlertRules, now: datetime) -> str | None:
    for silence in rules.silences:
        if (
            (silence.since is None or silence.since <= now)
            and now < silence.until
            and fits(silence.rules, alert.rule)
            and fits(silence.groups, alert.group_id)
            and fits(silence.topics, alert.topic)
        ):
            return f"silence until {silence.until.isoformat()}"
    return None


def _inhibition(alert: Alert, alerts: Alerts, rules: AlertRules) -> str | None:
    for inhibition in rules.inhibit:
        if not fits(inhibition.mute, alert.rule):
            continue
        for other in alerts.values():
            if (
                other.state is AlertState.FIRING
                and other.rule != alert.rule
                and fits(inhibition.when, other.rule)
                and all(getattr(other, name) == getattr(alert, name) for name in inhibition.equal)
            ):
                return f"alert {other.rule}"
    return None
