"""A query that failed is started again, unless a person has to mend something first."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException

from streaming.errors import ConfigurationError, LogChanged, TablesUnavailable

logger = logging.getLogger(__name__)

_HEALS: Final = (TablesUnavailable, LogChanged)
"""What is not in the log any more is loaded again."""

_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 60.0
_CANNOT_HEAL: Final = (ConfigurationError, AnalysisException, Py4JError, ConnectionError)
"""What a person must change, a query that cannot even start, and Spark's JVM that is gone."""


@dataclass(slots=True)
class Supervisor:
    """Starts a query again, with a growing pause, up to `max_restarts` times in a row.

    A row ends where the query finished a micro-batch. `stop` ends the pause, and everything.
    """

    max_restarts: int
    stop: threading.Event
    restarts: int = 0

    def run(self, query: Callable[[], None], finished: Callable[[], int]) -> None:
        """Run a query to its end; `finished` tells how many micro-batches it has finished.

        Raises:
            Exception: what it failed of the last time.
        """
        while True:
            before = finished()
            try:
                return query()
            except Exception as error:
                self.restarts = 1 if finished() > before else self.restarts + 1
                if self.stop.is_set() or not may_heal(error) or self.restarts > self.max_restarts:
                    raise
                pause_s = min(_FIRST_WAIT_S * 2 ** (self.restarts - 1), _LONGEST_WAIT_S)
                logger.warning(
                    "the query failed (%(error)s); it starts again in %(pause_s)g s "
                    "(%(restarts)s of %(max_restarts)s)",
                    {
                        "error": (str(error) or type(error).__name__).splitlines()[0],
                        "error_class": type(error).__name__,
                        "pause_s": pause_s,
                        "restarts": self.restarts,
                        "max_restarts": self.max_restarts,
                    },
                )
                logger.debug("trace of the warning above", exc_info=True)
            if self.stop.wait(pause_s):
                return None


def may_heal(error: BaseException) -> bool:
    """Whether a later attempt may go well without anybody's doing."""
    return isinstance(error, _HEALS) or not isinstance(error, _CANNOT_HEAL)
