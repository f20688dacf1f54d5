"""An alert: its state, and the last notice that each sink accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import NamedTuple


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
