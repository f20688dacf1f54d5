"""Where the log ended, asked again and again."""

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

    While groups commit the tables are always behind by what came a moment ago. So a log partition
    counts as read to its end if the tables have all of it that was there at most `kept_for` ago.
    """

    ask: Callable[[], Mapping[int, int]]
    kept_for: timedelta
    clock: Callable[[], float] = time.monotonic
    error: str = "nobody has asked for them yet"
    """Why the last attempt to ask failed, empty where it did not."""
    _samples: deque[tuple[float, Mapping[int, int]]] = field(default_factory=deque)

    @property
    def interval(self) -> timedelta:
        """How often to `sample`."""
        return max(self.kept_for / _INTERVALS, timedelta(seconds=_SHORTEST_S))

    def sample(self) -> None:
        """Ask the leaders; what goes wrong is kept in `error` until it goes well."""
        asked_at = self.clock()
        try:
            self._samples.append((asked_at, dict(self.ask())))
            self.error = ""
        except (ConfigurationError, TimeoutError) as error:
            self.error = first_line(error)
            logger.debug("high watermarks are not known", exc_info=True)
        while self._samples and not self._is_young(self._samples[0][0]):
            self._samples.popleft()

    @property
    def newest(self) -> Mapping[int, int] | None:
        """Those seen last, None where that is too long ago."""
        young = self._young()
        return young[-1] if young else None

    @property
    def oldest(self) -> Mapping[int, int] | None:
        """The first that were seen within `kept_for`; a high watermark only grows."""
        young = self._young()
        return young[0] if young else None

    def _young(self) -> list[Mapping[int, int]]:
        return [found for asked_at, found in list(self._samples) if self._is_young(asked_at)]

    def _is_young(self, asked_at: float) -> bool:
        return self.clock() - asked_at <= self.kept_for.total_seconds()
