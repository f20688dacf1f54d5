"""Timers by name, which fire when their owner is told that time has passed.

Source: coordinator-common/src/main/java/org/apache/kafka/coordinator/common/runtime/
CoordinatorTimer.java at 4.2.0, whose `schedule` and `cancel` these are.
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
    """Each name has at most one timer; scheduling it anew replaces it."""

    now_ms: int = 0
    _known: dict[tuple[str, ...], _Timer] = field(default_factory=dict)
    _queue: list[_Timer] = field(default_factory=list)
    """Those that were replaced or cancelled stay in it, until there are too many or their time."""
    _scheduled: int = 0

    def schedule(self, name: tuple[str, ...], delay_ms: int, action: Action) -> None:
        """Have something done after a delay."""
        self._scheduled += 1
        self._known[name] = _Timer(self.now_ms + delay_ms, self._scheduled, name, action)
        heappush(self._queue, self._known[name])
        if len(self._queue) > _STALE_SHARE * len(self._known) + _LEAST_QUEUE:
            self._queue = list(self._known.values())
            heapify(self._queue)

    def is_scheduled(self, name: tuple[str, ...]) -> bool:
        """Whether something is to be done under a name."""
        return name in self._known

    def cancel(self, name: tuple[str, ...]) -> None:
        """Leave it undone."""
        self._known.pop(name, None)

    def cancel_all(self, of: str, kinds: Collection[str] | None = None) -> None:
        """Leave undone what is named after a group, the second part; only such first parts."""
        for name in list(self._known):
            if name[1] == of and (kinds is None or name[0] in kinds):
                del self._known[name]

    @property
    def next_due_ms(self) -> int | None:
        """When the next timer fires, None without any."""
        while self._queue and self._known.get(self._queue[0].name) is not self._queue[0]:
            heappop(self._queue)
        return self._queue[0].due_ms if self._queue else None

    def advance(self, now_ms: int) -> None:
        """Let time pass; what is due by then is done in its order, each thing at its own time.

        Raises:
            ValueError: time would go back.
        """
        if now_ms < self.now_ms:
            raise ValueError(f"it is {self.now_ms} ms already, after {now_ms} ms")
        while (due_ms := self.next_due_ms) is not None and due_ms <= now_ms:
            timer = heappop(self._queue)
            del self._known[timer.name]
            self.now_ms = max(self.now_ms, due_ms)
            timer.action()
        self.now_ms = now_ms
