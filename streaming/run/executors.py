"""How many tasks a session's executors run at once, which sets the tasks of a micro-batch.

Executors register seconds or minutes after a session has started, and `defaultParallelism` is 2
until then.
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
    """The tasks that registered executors run at once; `spark.default.parallelism` if it is set."""
    context = session.sparkContext
    configured = context.getConf().get(_SET_BY_USER)
    if configured is not None:
        return int(configured)
    cpus = int(context.getConf().get("spark.task.cpus", "1"))
    executors = context._jsc.sc().statusStore().executorList(True)
    # In local mode the driver is the executor; otherwise it has no cores.
    return sum(executors.apply(i).totalCores() // cpus for i in range(executors.size()))


def await_executors(session: SparkSession, stop: threading.Event) -> None:
    """Wait until executors have registered and no more arrive, for 30 s at most, or for `stop`."""
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
    """Notices that more executors have registered than a query has tasks for.

    Args:
        session: the session of the query.
        is_over: set when the query is to start again, with more tasks.
    """

    session: SparkSession
    is_over: threading.Event
    _tasks: int = 0
    _most: int = 0
    _seen: int = 0

    def begin(self, log_partitions: int) -> int:
        """The tasks of a query that starts now: one per log partition at most."""
        self._most = log_partitions
        self._tasks = self._seen = self._slots()
        return self._tasks

    def look(self) -> None:
        """Check once; the number of slots counts when two checks in a row find the same."""
        before, self._seen = self._seen, self._slots()
        if self._tasks and self._tasks < self._seen == before:
            logger.info(
                "executors run %(slots)s tasks at once now, the query has %(tasks)s; it starts "
                "again with more",
                {"slots": self._seen, "tasks": self._tasks},
            )
            self.is_over.set()

    def _slots(self) -> int:
        return max(1, min(task_slots(self.session), self._most))
