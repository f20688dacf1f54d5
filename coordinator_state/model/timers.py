"""Named timers, which fire when the caller advances the time.

Source: coordinator-common/src/main/java/org/apache/kafka/coordinator/common/runtime/
CoordinatorTimer.java (`schedule`, `cancel`) at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

_STALE_SHARE: Final = 2
_LEAST_QUEUE: Final = 64

Action = Callable[[], object]


class _Timer(NamedTuple):
    due_ms: int
    number: int
    name: tuple[str, ...]
    action: Action


@dataclass(slots=True)
class Timers:
    """At most one timer for each name. Scheduling a name again replaces its timer."""

    now_ms: int = 0
    _known: dict[tuple[str, ...], _Timer] = field(default_factory=dict)
    _queue: list[_Timer] = field(default_factory=list)
    """A heap that also holds replaced and cancelled timers.

    They are dropped when they are due, or when there are too many of them.
    """
    _scheduled: int = 0

    def schedule(self, name: tuple[str, ...], delay_ms: int, action: Action) -> None:
        """Schedule an action after a delay."""
        self._scheduled += 1
        self._known[name] = _Timer(self.now_ms + delay_ms, self._scheduled, name, action)
        heappush(self._queue, self._known[name])
        if len(self._queue) > _STALE_SHARE * len(self._known) + _LEAST_QUEUE:
            self._queue = list(self._known.values())
            heapify(self._queue)

    def is_scheduled(self, name: tuple[str, ...]) -> bool:
        """Whether a timer with this name is scheduled."""
        return name in self._known

    def cancel(self, name: tuple[str, ...]) -> None:
        """Cancel the timer with this name, if there is one."""
        self._known.pop(name, None)

    def cancel_all(self, group_id: str, kinds: Collection[str] | None = None) -> None:
        """Cancel the timers of a group, which is the second part of their names.

        With `kinds`, cancel only timers whose first part is one of them.
        """
        for name in list(self._known):
            if name[1] == group_id and (kinds is None or name[0] in kinds):
                del self._known[name]

    @property
    def next_due_ms(self) -> int | None:
        """The time when the next timer fires; None if there are no timers."""
        while self._queue and self._known.get(self._queue[0].name) is not self._queue[0]:
            heappop(self._queue)
        return self._queue[0].due_ms if self._queue else None

    def advance(self, now_ms: int) -> None:
        """Advance the time and fire the due timers in order, each at its own time.

        Raises:
            ValueError: `now_ms` is before the current time.
        """
        if now_ms < self.now_ms:
            raise ValueError(f"cannot move the time back from {self.now_ms} ms to {now_ms} ms")
        while (due_ms := self.next_due_ms) is not None and due_ms <= now_ms:
            timer = heappop(self._queue)
            del self._known[timer.name]
            self.now_ms = max(self.now_ms, due_ms)
            timer.action()
        self.now_ms = now_ms
