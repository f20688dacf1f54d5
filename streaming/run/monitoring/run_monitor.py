"""How a run is: what its query, its micro-batches, its supervisor and its upkeep did last."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from streaming.errors import first_line
from streaming.run.monitoring.run_metrics import RunMetrics
from streaming.tables.reader import is_reloading
from streaming.tables.schemas import STATE_WAITING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQueryProgress

    from streaming.run.monitoring.high_watermarks import HighWatermarks
    from streaming.tables.load_progress import Progress

Row = dict[str, Any]
STARTING, RUNNING, RESTARTING = "starting", "running", "restarting"


@dataclass(slots=True)
class RunMonitor:
    """Takes in what happens, from any thread, and answers whether that is well.

    Args:
        high_watermarks: where the log ended.
        health_timeout: how long it may take until the next micro-batch, or a trigger without
            anything new, is finished.
    """

    high_watermarks: HighWatermarks
    health_timeout: timedelta
    clock: Callable[[], float] = time.monotonic
    metrics: RunMetrics = field(default_factory=RunMetrics)
    log_partitions: Mapping[int, Row] = field(default_factory=dict)
    """The rows of `load_progress` as they were written last."""
    _state: str = STARTING
    _last_error: str = ""
    _alive_at: float = 0.0

    def __post_init__(self) -> None:
        self._alive_at = self.clock()

    @contextmanager
    def query(self) -> Iterator[None]:
        """A query starts and runs as long as the block does."""
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
        """`load_progress` has these rows."""
        self.log_partitions = {number: asdict(row) for number, row in rows.items()}

    def triggered(self, progress: StreamingQueryProgress | None = None) -> None:
        """A trigger is over; None where there was nothing to do for it."""
        self._alive_at = self.clock()
        if progress is not None:
            self.metrics.micro_batch(progress)

    def health(self) -> tuple[bool, Row]:
        """Whether the query gets on, and the facts."""
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
            facts["reason"] = "no micro-batch and no idle trigger was finished for too long"
        return is_alive, facts

    def readiness(self) -> tuple[bool, Row]:
        """Whether every log partition is in the tables up to its end, and which is not.

        By position: an end that compaction emptied, or that is control records, is reached too.
        """
        ends = self.high_watermarks.oldest
        if ends is None:
            reason = f"the high watermarks are not known: {self.high_watermarks.error}"
            return False, {"ready": False, "reason": reason}
        behind = {
            str(log_partition): {"next_offset": next_offset, "high_watermark": end}
            for log_partition, end in sorted(ends.items())
            if (next_offset := self._next_offset(log_partition)) < end
            or self._is_reloading(log_partition)
        }
        waiting = sorted(p for p, r in self.log_partitions.items() if r["state"] == STATE_WAITING)
        is_ready = not behind and not waiting
        facts = {"ready": is_ready, "log_partitions": len(ends), "behind": behind}
        if behind:
            facts["reason"] = "log partitions are not loaded up to their end"
        if waiting:
            facts["waiting"] = waiting
            facts["reason"] = f"log partitions without a leader: {', '.join(map(str, waiting))}"
        return is_ready, facts

    def offsets_behind(self) -> dict[int, int]:
        """Record offsets between the tables and the high watermarks seen last."""
        ends = self.high_watermarks.newest or {}
        return {p: max(0, end - self._next_offset(p)) for p, end in ends.items()}

    def _is_reloading(self, log_partition: int) -> bool:
        row = self.log_partitions.get(log_partition)
        return row is not None and is_reloading(row["reload_reason"], row["reloaded_at"])

    def _next_offset(self, log_partition: int) -> int:
        row = self.log_partitions.get(log_partition)
        return 0 if row is None else int(row["next_offset"])
