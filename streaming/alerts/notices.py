"""Notices: alerts as text and as JSON fields."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from streaming.alerts.alert import Alert, NoticeKind

MOST_LINES: Final = 20
_LONGEST_LINE: Final = 1_000


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
