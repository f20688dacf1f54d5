"""An outage: the failed attempts of one operation, as lines in the log."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

LOGGED_AFTER_S: Final = 1.0
"""Failures shorter than this, such as most leader moves, are logged at DEBUG only."""

_COUNTED_EVERY_S: Final = 60.0


class Outage:
    """Logs a failure once, and then once a minute the number of attempts that failed like it.

    Args:
        cluster: the cluster as the lines name it, with its bootstrap servers.
        operation: the operation that is retried.
        logged_after_s: shorter outages are logged at DEBUG only.
        clock: the time in seconds, from any point.
    """

    def __init__(
        self,
        cluster: str,
        operation: str,
        *,
        logged_after_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._operation = operation
        self._logged_after_s = logged_after_s
        self._clock = clock
        self._began_at = clock()
        self._logged_at: dict[str, float] = {}
        self.attempts = 0
        """The number of failed attempts."""

    @property
    def seconds(self) -> float:
        """The time since the first attempt."""
        return self._clock() - self._began_at

    def failed(self, error: BaseException | None, pause_s: float) -> None:
        """Count a failed attempt, which is retried after a pause, and log it if it says more."""
        self.attempts += 1
        now = self._clock()
        is_long = self.seconds + pause_s > self._logged_after_s
        is_new = now - self._logged_at.get(str(error), -math.inf) >= _COUNTED_EVERY_S
        if is_long and is_new:
            self._logged_at[str(error)] = now
        logger.log(
            logging.WARNING if is_long and is_new else logging.DEBUG,
            "%(cluster)s: cannot %(operation)s: %(error)s; attempt %(attempt)d, retrying in "
            "%(pause_s).1f s",
            {
                "cluster": self._cluster,
                "operation": self._operation,
                "error": error,
                "attempt": self.attempts,
                "pause_s": pause_s,
            },
        )

    def ended(self) -> None:
        """Log the end of the outage, if it was logged."""
        if self._logged_at:
            logger.warning(
                "%(cluster)s: reachable again after %(outage_s).0f s and %(attempts)d failed "
                "attempts",
                {"cluster": self._cluster, "outage_s": self.seconds, "attempts": self.attempts},
            )
