"""Alerts with their state and the last notice that each sink accepted, and notices as text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any, Final, NamedTuple

MOST_LINES: Final = 20
_LONGEST_LINE: Final = 1_000


class AlertKey(NamedTuple):
    """The subject of an alert; a field is None if the rule does not distinguish by it."""

    rule: str
    group_id: str | None = None
    topic: str | None = None
    partition: int | None = None


class Finding(NamedTuple):
    """The condition of a rule holds for a key, or its result is unknown (`reason` is None).

    `group_status` is the status of the subject: of a group, or of it in a topic or partition.
    """

    key: AlertKey
    reason: str | None
    value: float | None = None
    group_status: str | None = None


class AlertState(str, Enum):
    """The state of an alert; PENDING: the condition has not held for the rule's `for` yet."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


class NoticeKind(str, Enum):
    """Why a sink gets a notice.

    NEW: of a state that it does not know. UPDATE: the status of the subject changed. REPEAT: the
    alert still fires.
    """

    NEW = "new"
    UPDATE = "update"
    REPEAT = "repeat"


@dataclass(frozen=True, slots=True)
class Sent:
    """The last notice that a sink accepted."""

    sink: str
    state: AlertState
    sent_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert; `value` and `reason` are from the last evaluation in which its condition held.

    `fired_value` is the value of the evaluation that made it fire.
    `condition_ended_at` is the first evaluation since then; None while the condition holds.
    `group_status` is the status of its subject then, since `status_since`, and `previous_status`
    the one before it. A resolved alert has none, and its `reason` names the current state.
    """

    key: AlertKey
    severity: str
    state: AlertState
    since: datetime
    fired_at: datetime | None = None
    condition_ended_at: datetime | None = None
    resolved_at: datetime | None = None
    value: float | None = None
    fired_value: float | None = None
    reason: str = ""
    muted_by: str | None = None
    sent: tuple[Sent, ...] = ()
    group_status: str | None = None
    previous_status: str | None = None
    status_since: datetime | None = None

    @property
    def rule(self) -> str:
        return self.key.rule

    @property
    def group_id(self) -> str | None:
        return self.key.group_id

    @property
    def topic(self) -> str | None:
        return self.key.topic

    @property
    def partition(self) -> int | None:
        return self.key.partition

    @property
    def is_sent_as_firing(self) -> bool:
        """Whether a sink accepted a firing notice and has not accepted a resolved one since."""
        return any(sent.state is AlertState.FIRING for sent in self.sent)

    @property
    def change(self) -> str:
        """The change of the subject's status while the alert fires; empty without one."""
        return "" if self.previous_status is None else f"was {self.previous_status}"

    def after_sending(self, sink: str, at: datetime) -> Alert:
        """The alert after a sink accepted a notice of its current state."""
        others = tuple(sent for sent in self.sent if sent.sink != sink)
        return replace(self, sent=(*others, Sent(sink, self.state, at)))


Alerts = Mapping[AlertKey, Alert]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One alert as a sink receives it."""

    alert: Alert
    cluster_id: str
    note: str
    kind: NoticeKind

    @property
    def alert_id(self) -> str:
        """The same for all notices of one alert key in one cluster: receivers join by it."""
        parts = (self.cluster_id, *self.alert.key)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    @property
    def subject(self) -> str:
        """The key of the alert as text: `group payments, topic orders, partition 3`."""
        alert = self.alert
        parts = {"group": alert.group_id, "topic": alert.topic, "partition": alert.partition}
        text = ", ".join(f"{name} {part}" for name, part in parts.items() if part is not None)
        return text or f"cluster {self.cluster_id}"

    @property
    def sentence(self) -> str:
        """The whole notice in one line."""
        alert = self.alert
        start = f"{alert.state.value.upper()} [{alert.severity}] {alert.rule}: {self.subject}"
        change = f"; {alert.change}" if self.kind is NoticeKind.UPDATE else ""
        return f"{start}: {alert.reason}{change}" + (f" ({self.note})" if self.note else "")

    def fields(self) -> dict[str, Any]:
        """The fields of the notice in JSON, as docs/alerts.md lists them."""
        alert = self.alert
        return {
            "status": alert.state.value,
            "alert_id": self.alert_id,
            "rule": alert.rule,
            "severity": alert.severity,
            "cluster_id": self.cluster_id,
            "group_id": alert.group_id,
            "topic": alert.topic,
            "partition": alert.partition,
            "value": alert.value,
            "fired_value": alert.fired_value,
            "reason": alert.reason,
            "note": self.note,
            "since": alert.since,
            "fired_at": alert.fired_at,
            "resolved_at": alert.resolved_at,
            "is_repeat": self.kind is NoticeKind.REPEAT,
            "is_update": self.kind is NoticeKind.UPDATE,
            "group_status": alert.group_status,
            "previous_status": alert.previous_status,
        }


def sentences(notices: Sequence[Notice]) -> list[str]:
    """One line for each of the first 20 notices, and a line with the number of the others."""
    lines = [notice.sentence[:_LONGEST_LINE] for notice in notices[:MOST_LINES]]
    if len(notices) > MOST_LINES:
        lines.append(f"and {len(notices) - MOST_LINES} more")
    return lines


def headline(notices: Sequence[Notice]) -> str:
    """A subject line: the alert, or the number of alerts in each state."""
    if len(notices) == 1:
        alert = notices[0].alert
        return f"{alert.state.value.upper()} [{alert.severity}] {alert.rule}: {notices[0].subject}"
    states = [notice.alert.state.value for notice in notices]
    counted = (f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return f"{', '.join(counted)} alerts"
