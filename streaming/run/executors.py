"""The number of parallel tasks of a session's executors, and so the tasks of a micro-batch.

Executors register seconds or minutes after the start of a session. Until then Spark's
`defaultParallelism` is 2, so it cannot be used.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_SET_BY_USER: Final = "spark.default.parallelism"
_LONGEST_WAIT_S: Final = 30.0
_SETTLED_AFTER_S: Final = 3.0
_POLL_S: Final = 0.2


def task_slots(session: SparkSession) -> int:
    """Return `spark.default.parallelism` if set, else the task slots of registered executors."""
    context = session.sparkContext
    configured = context.getConf().get(_SET_BY_USER)
    if configured is not None:
        return int(configured)
    cpus = int(context.getConf().get("spark.task.cpus", "1"))
    executors = context._jsc.sc().statusStore().executorList(True)
    # In local mode the driver is the executor; otherwise it has no cores.
    return sum(executors.apply(i).totalCores() // cpus for i in range(executors.size()))


def await_executors(session: SparkSession, stop: threading.Event) -> None:
    """Wait until no more executors register for 3 s, up to 30 s in total, or until `stop`."""
    if session.sparkContext._jsc.sc().isLocal():
        return
    slots, since = 0, time.monotonic()
    deadline = since + _LONGEST_WAIT_S
    while (now := time.monotonic()) < deadline:
        before, slots = slots, task_slots(session)
        if slots != before:
            since = now
        if (slots and now - since >= _SETTLED_AFTER_S) or stop.wait(_POLL_S):
            return


@dataclass(slots=True)
class ExecutorWatch:
    """Requests a restart of the query if the executors can run more tasks than the query has.

    Args:
        session: the session of the query.
        restart: set to request a restart of the query with more tasks.
    """

    session: SparkSession
    restart: threading.Event
    _tasks: int = 0
    _most: int = 0
    _seen: int = 0

    def begin(self, log_partitions: int) -> int:
        """Return the tasks for a query that starts now: at most one per log partition."""
        self._most = log_partitions
        self._tasks = self._seen = self._slots()
        return self._tasks

    def check(self) -> None:
        """Check once; a number of slots counts if two checks in a row find it."""
        before, self._seen = self._seen, self._slots()
        if self._tasks and self._tasks < self._seen == before:
            logger.info(
                "executors can now run %(slots)s tasks at once, the query has %(tasks)s: "
                "restarting the query",
                {"slots": self._seen, "tasks": self._tasks},
            )
            self.restart.set()

    def _slots(self) -> int:
        return max(1, min(task_slots(self.session), self._most))
