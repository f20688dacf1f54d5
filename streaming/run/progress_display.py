"""The progress of a run on stderr: a live line on a terminal, else a plain line every 5 s."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from streaming.engine.progress import ProgressEvent
from streaming.run.stderr import write_note
from streaming.tables.schemas import STATE_CURRENT, STATE_LOADING, STATE_WAITING

if TYPE_CHECKING:
    from rich.live import Live

_STATES = (STATE_CURRENT, STATE_LOADING, STATE_WAITING)
RATE_WINDOW_S = 30.0
"""Rates are averages over the micro-batches of this window, so they do not jump."""
PLAIN_INTERVAL_S = 5.0
"""At most one plain line is written in this time, to keep log files short."""


def progress_line(event: ProgressEvent, *, records_per_s: float, offsets_per_s: float) -> str:
    """Return records so far, rate, time left, and the number of log partitions per state."""
    parts = [f"{event.records_read_total:,} records read", f"{records_per_s:,.0f} records/s"]
    if event.offsets_left and offsets_per_s > 0:
        parts.append(f"{_duration(event.offsets_left / offsets_per_s)} left")
    states = Counter(event.states.values())
    counts = ", ".join(f"{states[state]} {state}" for state in _STATES)
    return f"{', '.join(parts)}; log partitions: {counts}"


class ProgressDisplay:
    """A context manager that shows progress events; any thread may call it with an event."""

    def __init__(
        self,
        *,
        is_terminal: bool,
        clock: Callable[[], float] = time.monotonic,
        write: Callable[[str], None] = write_note,
    ) -> None:
        self._is_terminal = is_terminal
        self._clock = clock
        self._write = write
        self._samples: deque[tuple[float, int, int]] = deque()
        self._last_plain = float("-inf")
        self._live: Live | None = None

    def __enter__(self) -> ProgressDisplay:
        if self._is_terminal:
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True, highlight=False)
            self._live = Live("starting", console=console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, event: ProgressEvent) -> None:
        """Show a finished micro-batch."""
        now = self._clock()
        records_per_s, offsets_per_s = self._rates(now, event)
        line = progress_line(event, records_per_s=records_per_s, offsets_per_s=offsets_per_s)
        if self._live is not None:
            self._live.update(line)
        elif now - self._last_plain >= PLAIN_INTERVAL_S:
            self._last_plain = now
            self._write(line)

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
