"""High watermarks of the log partitions, sampled at intervals."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from streaming.errors import ConfigurationError, first_line

logger = logging.getLogger(__name__)

_INTERVALS: Final = 10
_SHORTEST_S: Final = 1.0


@dataclass(slots=True)
class HighWatermarks:
    """The high watermarks of the log partitions over the last `kept_for`.

    While groups commit, the tables never have the newest records. So a log partition counts as read
    to its end if the tables reach its oldest high watermark of the last `kept_for`.
    """

    ask: Callable[[], Mapping[int, int]]
    kept_for: timedelta
    clock: Callable[[], float] = time.monotonic
    error: str = "not requested yet"
    """Why the last request failed; empty if it succeeded."""
    _samples: deque[tuple[float, Mapping[int, int]]] = field(default_factory=deque)

    @property
    def interval(self) -> timedelta:
        """The time between two calls of `sample`."""
        return max(self.kept_for / _INTERVALS, timedelta(seconds=_SHORTEST_S))

    def sample(self) -> None:
        """Ask the leaders; `error` keeps a failure until the next success."""
        asked_at = self.clock()
        try:
            self._samples.append((asked_at, dict(self.ask())))
            self.error = ""
        except (ConfigurationError, TimeoutError) as error:
            self.error = first_line(error)
            logger.debug("cannot list the high watermarks", exc_info=True)
        while self._samples and not self._is_young(self._samples[0][0]):
            self._samples.popleft()

    @property
    def newest(self) -> Mapping[int, int] | None:
        """The newest high watermarks; None if they are stale."""
        young = self._young()
        return young[-1] if young else None

    @property
    def oldest(self) -> Mapping[int, int] | None:
        """The oldest high watermarks within `kept_for`; None if there are none."""
        young = self._young()
        return young[0] if young else None

    def _young(self) -> list[Mapping[int, int]]:
        return [
            watermarks for asked_at, watermarks in list(self._samples) if self._is_young(asked_at)
        ]

    def _is_young(self, asked_at: float) -> bool:
        return self.clock() - asked_at <= self.kept_for.total_seconds()
