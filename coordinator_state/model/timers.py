"""Timers by name, which fire when their owner is told that time has passed.

Source: coordinator-common/src/main/java/org/apache/kafka/coordinator/common/runtime/
CoordinatorTimer.java at 4.2.0, whose `schedule` and `cancel` these are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

Action = Callable[[], None]


class _Timer(NamedTuple):
    due_ms: int
    number: int
    action: Action


@dataclass(slots=True)
class Timers:
    """Each name has at most one timer; scheduling it anew replaces it."""

    now_ms: int = 0
    _timers: dict[tuple[str, ...], _Timer] = field(default_factory=dict)
    _scheduled: int = 0

    def schedule(self, name: tuple[str, ...], delay_ms: int, action: Action) -> None:
        """Have something done after a delay."""
        self._scheduled += 1
        self._timers[name] = _Timer(self.now_ms + delay_ms, self._scheduled, action)

    def cancel(self, name: tuple[str, ...]) -> None:
        """Leave it undone."""
        self._timers.pop(name, None)

    def cancel_all(self, of: str) -> None:
        """Leave everything undone whose name has this second part, that of a group."""
        for name in [name for name in self._timers if name[1] == of]:
            del self._timers[name]

    @property
    def next_due_ms(self) -> int | None:
        """When the next timer fires, None without any."""
        return min((timer.due_ms for timer in self._timers.values()), default=None)

    def advance(self, now_ms: int) -> None:
        """Let time pass; what is due by then is done in its order, each thing at its own time.

        Raises:
            ValueError: time would go back.
        """
        if now_ms < self.now_ms:
            raise ValueError(f"it is {self.now_ms} ms already, after {now_ms} ms")
        while self._timers:
            name, timer = min(self._timers.items(), key=lambda entry: entry[1][:2])
            if timer.due_ms > now_ms:
                break
            del self._timers[name]
            self.now_ms = max(self.now_ms, timer.due_ms)
            timer.action()
        self.now_ms = now_ms
