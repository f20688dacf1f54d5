"""Health and readiness of a run: events of its query and supervisor, and high watermarks."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from streaming.errors import ConfigurationError, first_line
from streaming.run.monitoring.run_metrics import RunMetrics
from streaming.tables.load_state import is_reloading
from streaming.tables.schemas import STATE_WAITING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQueryProgress

    from streaming.tables.topic_progress import Progress

logger = logging.getLogger(__name__)

Row = dict[str, Any]
STARTING, RUNNING, RESTARTING = "starting", "running", "restarting"
_INTERVALS: Final = 10
_SHORTEST_S: Final = 1.0


@dataclass(slots=True)
class RunMonitor:
    """Receives events from any thread, and answers health and readiness.

    Args:
        high_watermarks: the sampled high watermarks of the log partitions.
        health_timeout: the longest time without a finished micro-batch or idle trigger.
    """

    high_watermarks: HighWatermarks
    health_timeout: timedelta
    clock: Callable[[], float] = time.monotonic
    metrics: RunMetrics = field(default_factory=RunMetrics)
    log_partitions: Mapping[int, Row] = field(default_factory=dict)
    """The progress rows as they were last written."""
    _state: str = STARTING
    _last_error: str = ""
    _alive_at: float = 0.0

    def __post_init__(self) -> None:
        self._alive_at = self.clock()

    @contextmanager
    def query(self) -> Iterator[None]:
        """Record the query as running during the block, and its error if it fails."""
        if self._state != STARTING:
            self.metrics.restarts.inc()
        self._state = RUNNING
        try:
            yield
        except Exception as error:
            self._state = RESTARTING
            self._last_error = f"{type(error).__name__}: {first_line(error)}"
            self.metrics.failed(error)
            raise

    def loaded(self, rows: Mapping[int, Progress]) -> None:
        """Record the written progress rows."""
        self.log_partitions = {number: asdict(row) for number, row in rows.items()}

    def triggered(self, progress: StreamingQueryProgress | None = None) -> None:
        """Record a finished trigger; `progress` is None for an idle one."""
        self._alive_at = self.clock()
        if progress is not None:
            self.metrics.micro_batch(progress)

    def health(self) -> tuple[bool, Row]:
        """Return whether the query makes progress, and the facts."""
        idle_s = self.clock() - self._alive_at
        is_alive = idle_s <= self.health_timeout.total_seconds()
        facts = {
            "healthy": is_alive,
            "query": self._state,
            "seconds_since_last_trigger": round(idle_s, 1),
            "health_timeout_seconds": self.health_timeout.total_seconds(),
        }
        if self._last_error:
            facts["last_error"] = self._last_error
        if not is_alive:
            facts["reason"] = "no micro-batch and no idle trigger finished within health_timeout"
        return is_alive, facts

    def readiness(self) -> tuple[bool, Row]:
        """Return whether the tables have every log partition to its end, and which are behind.

        This compares next offsets, so a log end without records, after compaction, counts too.
        """
        ends = self.high_watermarks.oldest
        if ends is None:
            reason = f"high watermarks unknown: {self.high_watermarks.error}"
            return False, {"ready": False, "reason": reason}
        behind = {
            str(log_partition): {"next_offset": next_offset, "high_watermark": end}
            for log_partition, end in sorted(ends.items())
            if (next_offset := self._next_offset(log_partition)) < end
            or self._is_reloading(log_partition)
        }
        leaderless = sorted(
            p for p, r in self.log_partitions.items() if r["state"] == STATE_WAITING
        )
        is_ready = not behind and not leaderless
        facts = {"ready": is_ready, "log_partitions": len(ends), "behind": behind}
        if behind:
            facts["reason"] = "log partitions are not loaded to their end"
        if leaderless:
            facts["waiting"] = leaderless
            facts["reason"] = f"log partitions without a leader: {', '.join(map(str, leaderless))}"
        return is_ready, facts

    def offsets_behind(self) -> dict[int, int]:
        """Return the record offsets between the tables and the newest high watermarks."""
        ends = self.high_watermarks.newest or {}
        return {p: max(0, end - self._next_offset(p)) for p, end in ends.items()}

    def _is_reloading(self, log_partition: int) -> bool:
        row = self.log_partitions.get(log_partition)
        return row is not None and is_reloading(row["reload_reason"], row["reloaded_at"])

    def _next_offset(self, log_partition: int) -> int:
        row = self.log_partitions.get(log_partition)
        return 0 if row is None else int(row["next_offset"])


class QueryListener(StreamingQueryListener):
    """Reports each finished trigger; Spark reports idle triggers only every 10 s."""

    def __init__(self, monitor: RunMonitor) -> None:
        self._monitor = monitor

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: the start of a query does not show that it makes progress."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._monitor.triggered(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: ARG002
        self._monitor.triggered()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing: the thread that waits for the query handles its end."""


@contextmanager
def listening(session: SparkSession, monitor: RunMonitor) -> Iterator[None]:
    """Report the session's triggers to the monitor while the block runs."""
    listener = QueryListener(monitor)
    session.streams.addListener(listener)
    try:
        yield
    finally:
        # The JVM may have exited.
        with suppress(Py4JError, ConnectionError):
            session.streams.removeListener(listener)


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
