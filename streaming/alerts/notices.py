"""What is told of an alert, in words and as fields."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from streaming.alerts.alert import Alert

MOST_LINES: Final = 20
_LONGEST_LINE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One alert as a sink is told of it."""

    alert: Alert
    cluster_id: str
    note: str
    is_repeat: bool

    @property
    def alert_id(self) -> str:
        """The same for every notice of what one rule says of one thing: receivers join by it."""
        told = (self.cluster_id, *self.alert.key)
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]

    @property
    def subject(self) -> str:
        """What the alert is about.

        `group payments, topic orders, partition 3`
        """
        alert = self.alert
        parts = {"group": alert.group_id, "topic": alert.topic, "partition": alert.partition}
        told = ", ".join(f"{name} {part}" for name, part in parts.items() if part is not None)
        return told or f"cluster {self.cluster_id}"

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        alert = self.alert
        what = f"{alert.state.value.upper()} [{alert.severity}] {alert.rule}: {self.subject}"
        return f"{what}: {alert.reason}" + (f" ({self.note})" if self.note else "")

    def fields(self) -> dict[str, Any]:
        """All of it by name; docs/alerts.md has them."""
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
            "is_repeat": self.is_repeat,
        }


def sentences(notices: Sequence[Notice]) -> list[str]:
    """A line each, of the first ones."""
    lines = [notice.sentence[:_LONGEST_LINE] for notice in notices[:MOST_LINES]]
    if len(notices) > MOST_LINES:
        lines.append(f"and {len(notices) - MOST_LINES} more")
    return lines


def headline(notices: Sequence[Notice]) -> str:
    """All of them in a few words."""
    if len(notices) == 1:
        alert = notices[0].alert
        return f"{alert.state.value.upper()} [{alert.severity}] {alert.rule}: {notices[0].subject}"
    states = [notice.alert.state.value for notice in notices]
    counted = (f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return f"{', '.join(counted)} alerts"
