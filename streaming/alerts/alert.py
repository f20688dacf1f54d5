"""An alert from the moment its condition holds until everyone knows that it is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import NamedTuple


class AlertKey(NamedTuple):
    """What an alert is about; None where its rule is of more than that."""

    rule: str
    group_id: str | None = None
    topic: str | None = None
    partition: int | None = None


class Finding(NamedTuple):
    """That a rule's condition holds of something, or that this is not known (`reason` is None)."""

    key: AlertKey
    reason: str | None
    value: float | None = None


class AlertState(str, Enum):
    """Pending: the condition holds, but not yet for as long as the rule says."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Sent:
    """The last notice that a sink took."""

    sink: str
    state: AlertState
    sent_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert; `value` and `reason` are those of when it last changed its state."""

    key: AlertKey
    severity: str
    state: AlertState
    since: datetime
    fired_at: datetime | None = None
    resolved_at: datetime | None = None
    value: float | None = None
    reason: str = ""
    muted_by: str | None = None
    sent: tuple[Sent, ...] = ()

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
    def is_told_as_firing(self) -> bool:
        """Whether some sink took it as firing and has not heard of its end."""
        return any(sent.state is AlertState.FIRING for sent in self.sent)

    def told(self, sink: str, at: datetime) -> Alert:
        """The alert after a sink took a notice of it."""
        others = tuple(sent for sent in self.sent if sent.sink != sink)
        return replace(self, sent=(*others, Sent(sink, self.state, at)))


Alerts = Mapping[AlertKey, Alert]
