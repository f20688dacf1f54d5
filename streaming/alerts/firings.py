"""The times at which alerts of a replay fired, each with its begin and its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from streaming.alerts.alert import Alert, AlertKey, AlertState
from streaming.alerts.replay import Change


@dataclass(frozen=True, slots=True)
class Firing:
    """One time that an alert fired: as it began, and its end; None if it fires at the end."""

    alert: Alert
    at: datetime
    resolved_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Firings:
    """The firings of a replay, newest first.

    `too_short` is how often the condition held, but not for the rule's `for`.
    """

    rows: list[Firing]
    too_short: int


def firings(changes: Iterable[Change]) -> Firings:
    """The firings among the changes of a replay."""
    rows: list[Firing] = []
    current: dict[AlertKey, Firing] = {}
    too_short = 0
    for change in changes:
        key, state = change.alert.key, change.alert.state
        if state is AlertState.FIRING:
            current[key] = Firing(change.alert, change.at)
        elif state is AlertState.RESOLVED and key in current:
            began = current.pop(key)
            rows.append(Firing(began.alert, began.at, change.at))
        elif state is AlertState.RESOLVED:
            too_short += 1
    rows += current.values()
    return Firings(sorted(rows, key=lambda firing: firing.at, reverse=True), too_short)
