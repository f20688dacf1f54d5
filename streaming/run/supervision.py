"""Starts a query that failed again, unless a person has to correct something first."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException

from streaming.errors import (
    ConfigurationError,
    LogChanged,
    TablesUnavailable,
    TopicMissing,
    first_line,
)

logger = logging.getLogger(__name__)

_OUTAGES: Final = (TablesUnavailable, TimeoutError, TopicMissing)
"""Brokers, a disk or a store that do not work now; nothing ends a run that waits for them."""
_HEALS: Final = (*_OUTAGES, LogChanged)
"""Log partitions whose records are gone are reloaded."""

_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 60.0
_MOST_DOUBLINGS: Final = 10
"""An outage of a day has more restarts than a float has powers of two."""
_CANNOT_HEAL: Final = (ConfigurationError, AnalysisException, Py4JError, ConnectionError)
"""Settings that a person must correct, a query that cannot start, and the end of Spark's JVM."""


@dataclass(slots=True)
class Supervisor:
    """Starts a query again, with exponential back-off, up to `max_restarts` times in a row.

    A finished micro-batch ends the row. With `waits`, restarts after an outage are not counted,
    unless `max_restarts` is 0. `stop` ends the pause and the supervisor.
    """

    max_restarts: int
    stop: threading.Event
    waits: bool = True
    restarts: int = 0
    failures: int = 0

    def run(self, query: Callable[[], None], finished: Callable[[], int]) -> None:
        """Run a query to its end; `finished` tells how many micro-batches it has finished.

        Raises:
            Exception: the error of the last attempt.
        """
        while True:
            before = finished()
            try:
                return query()
            except Exception as error:
                if finished() > before:
                    self.restarts = self.failures = 0
                is_outage = isinstance(error, _OUTAGES) and self.waits and self.max_restarts > 0
                self.restarts += 1
                self.failures += not is_outage
                if self.stop.is_set() or not may_heal(error) or self.failures > self.max_restarts:
                    raise
                doublings = min(self.restarts - 1, _MOST_DOUBLINGS)
                pause_s = min(_FIRST_WAIT_S * 2**doublings, _LONGEST_WAIT_S)
                logger.warning(
                    "the query failed (%(error)s); it starts again in %(pause_s)g s%(count)s",
                    {
                        "error": first_line(error),
                        "error_class": type(error).__name__,
                        "pause_s": pause_s,
                        "restarts": self.restarts,
                        "count": "" if is_outage else f" ({self.failures} of {self.max_restarts})",
                    },
                )
                logger.debug("trace of the warning above", exc_info=True)
            if self.stop.wait(pause_s):
                return None


def may_heal(error: BaseException) -> bool:
    """Whether a later attempt may succeed although nobody changes anything."""
    return isinstance(error, _HEALS) or not isinstance(error, _CANNOT_HEAL)
