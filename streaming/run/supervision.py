"""Restarts a failed query, unless a person must correct something first."""

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
"""Transient failures of brokers, a disk or a store; they are retried without a limit."""
_TRANSIENT: Final = (*_OUTAGES, LogChanged)
"""After a lost part of the log the restart reloads the log partitions."""

_FIRST_BACKOFF_S: Final = 1.0
_LONGEST_BACKOFF_S: Final = 60.0
_MOST_DOUBLINGS: Final = 10
"""Without a limit an outage of a day would overflow the float of the back-off."""
_PERMANENT: Final = (ConfigurationError, AnalysisException, Py4JError, ConnectionError)
"""Settings that a person must correct, a query that cannot start, or an exited JVM."""


@dataclass(slots=True)
class Supervisor:
    """Restarts a failed query with exponential back-off, up to `max_restarts` times in a row.

    A finished micro-batch resets the count. With `outlasts_outages`, restarts after an outage are
    not counted, unless `max_restarts` is 0. `stop` ends the back-off and the supervisor.
    """

    max_restarts: int
    stop: threading.Event
    outlasts_outages: bool = True
    restarts: int = 0
    failures: int = 0

    def run(self, query: Callable[[], None], finished: Callable[[], int]) -> None:
        """Run a query to its end; `finished` returns the number of its finished micro-batches.

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
                is_outage = (
                    isinstance(error, _OUTAGES) and self.outlasts_outages and self.max_restarts > 0
                )
                self.restarts += 1
                self.failures += not is_outage
                if (
                    self.stop.is_set()
                    or not is_transient(error)
                    or self.failures > self.max_restarts
                ):
                    raise
                doublings = min(self.restarts - 1, _MOST_DOUBLINGS)
                pause_s = min(_FIRST_BACKOFF_S * 2**doublings, _LONGEST_BACKOFF_S)
                logger.warning(
                    "the query failed (%(error)s); restarting it in %(pause_s)g s%(count)s",
                    {
                        "error": first_line(error),
                        "error_class": type(error).__name__,
                        "pause_s": pause_s,
                        "restarts": self.restarts,
                        "count": "" if is_outage else f" ({self.failures} of {self.max_restarts})",
                    },
                )
                logger.debug("traceback of the warning above", exc_info=True)
            if self.stop.wait(pause_s):
                return None


def is_transient(error: BaseException) -> bool:
    """Return whether a retry may succeed without a change by a person."""
    return isinstance(error, _TRANSIENT) or not isinstance(error, _PERMANENT)
