"""Alert rules that a test looks at second by second, without tables and without sinks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from streaming.alerts.alert import Alert, AlertKey, AlertState, Finding, NoticeKind
from streaming.alerts.alert_states import due, next_alerts
from streaming.alerts.rules import AlertRules

START = datetime(2026, 11, 22, tzinfo=timezone.utc)
BEHIND = AlertKey("behind", "g")
Sent = tuple[float, str, str, str]
_WORDS = {NoticeKind.REPEAT: "again", NoticeKind.UPDATE: "changed"}


class WatchedRules:
    """Rules that are looked at every second or so, and a sink that takes everything."""

    def __init__(self, **options: Any) -> None:
        sinks = options.pop("sinks", {"chat": {"type": "stdout"}})
        of_rule = options.pop("rule", {})
        rules = [
            {"name": name, "lag": "> 0", "keep_firing_for": "0s", **of_rule}
            for name in options.pop("names", ["behind"])
        ]
        self.rules = AlertRules.model_validate({"rules": rules, "sinks": sinks, **options})
        self.alerts: dict[AlertKey, Alert] = {}
        self.sent: list[Sent] = []
        self.broken: set[str] = set()

    def look(
        self,
        second: float,
        *keys: AlertKey,
        unknown: Sequence[AlertKey] = (),
        status: str | None = None,
    ) -> None:
        now = START + timedelta(seconds=second)
        findings: dict[str, list[Finding] | None] = {rule.name: [] for rule in self.rules.rules}
        for key in keys:
            of_rule = findings[key.rule]
            assert of_rule is not None
            of_rule.append(Finding(key, f"{status or 'it'} holds", 5, status))
        for key in unknown:
            of_rule = findings[key.rule]
            assert of_rule is not None
            of_rule.append(Finding(key, None))
        self.step(findings, now, second)

    def step(self, findings: Any, now: datetime, second: float) -> None:
        self.alerts = next_alerts(self.alerts, findings, self.rules, now)
        for key, alert in list(self.alerts.items()):
            for sink, kind in due(alert, self.rules, now).items():
                if sink not in self.broken:
                    self.alerts[key] = self.alerts[key].after_sending(sink, now)
                    word = _WORDS.get(kind, alert.state.value)
                    self.sent.append((second, key.rule, sink, word))

    def muted_by(self) -> str | None:
        return self.alerts[BEHIND].muted_by

    def state(self) -> AlertState | None:
        return self.alerts[BEHIND].state if BEHIND in self.alerts else None
