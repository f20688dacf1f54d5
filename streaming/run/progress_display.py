"""The progress of a run on stderr."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable

from streaming.engine.progress import ProgressEvent
from streaming.run.live_line import LiveLine
from streaming.run.stderr import write_dated_note
from streaming.tables.schemas import STATE_CURRENT, STATE_LOADING, STATE_WAITING

_STATES = (STATE_CURRENT, STATE_LOADING, STATE_WAITING)
RATE_WINDOW_S = 30.0
"""Rates are averages over the micro-batches of this window, so they do not jump."""


def progress_line(event: ProgressEvent, *, records_per_s: float, offsets_per_s: float) -> str:
    """Return records so far, rate, time left, and the number of log partitions per state."""
    parts = [f"{event.records_read_total:,} records read", f"{records_per_s:,.0f} records/s"]
    if event.offsets_left and offsets_per_s > 0:
        parts.append(f"{_duration(event.offsets_left / offsets_per_s)} left")
    states = Counter(event.states.values())
    counts = ", ".join(f"{states[state]} {state}" for state in _STATES)
    return f"{', '.join(parts)}; log partitions: {counts}"


class ProgressDisplay(LiveLine):
    """A context manager that shows progress events; any thread may call it with an event."""

    def __init__(
        self,
        *,
        is_terminal: bool,
        clock: Callable[[], float] = time.monotonic,
        write: Callable[[str], None] = write_dated_note,
    ) -> None:
        super().__init__(is_terminal=is_terminal, clock=clock, write=write)
        self._samples: deque[tuple[float, int, int]] = deque()

    def __call__(self, event: ProgressEvent) -> None:
        """Show a finished micro-batch."""
        records_per_s, offsets_per_s = self._rates(self._clock(), event)
        self.show(progress_line(event, records_per_s=records_per_s, offsets_per_s=offsets_per_s))

    def _rates(self, now: float, event: ProgressEvent) -> tuple[float, float]:
        """Return records and record offsets per second over the window."""
        samples = self._samples
        samples.append((now - event.duration_ms / 1000, event.records_read, event.offsets_read))
        while len(samples) > 1 and now - samples[0][0] > RATE_WINDOW_S:
            samples.popleft()
        elapsed_s = max(now - samples[0][0], 0.001)
        return (
            sum(records for _, records, _ in samples) / elapsed_s,
            sum(offsets for _, _, offsets in samples) / elapsed_s,
        )


def _duration(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
