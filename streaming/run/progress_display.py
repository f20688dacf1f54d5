"""A changing line on stderr, live on a terminal, and the progress of a run in it."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from streaming.engine.progress import ProgressEvent
from streaming.run.stages import enter_stage, leave_stages, newest_stage
from streaming.run.stderr import write_dated_note, write_note
from streaming.tables.schemas import STATE_CURRENT, STATE_LOADING, STATE_WAITING

if TYPE_CHECKING:
    from rich.live import Live

AnyLiveLine = TypeVar("AnyLiveLine", bound="LiveLine")

PLAIN_INTERVAL_S = 5.0
"""At most one plain line is written in this time, to keep log files short."""
_STATES = (STATE_CURRENT, STATE_LOADING, STATE_WAITING)
RATE_WINDOW_S = 30.0
"""Rates are averages over the micro-batches of this window, so they do not jump."""
_LIVE_INTERVAL_S = 0.5


def progress_line(event: ProgressEvent, *, records_per_s: float, offsets_per_s: float) -> str:
    """Return records so far, rate, time left, and the number of log partitions per state."""
    parts = [f"{event.records_read_total:,} records read", f"{records_per_s:,.0f} records/s"]
    if event.offsets_left and offsets_per_s > 0:
        parts.append(f"{_duration(event.offsets_left / offsets_per_s)} left")
    states = Counter(event.states.values())
    counts = ", ".join(f"{states[state]} {state}" for state in _STATES)
    return f"{', '.join(parts)}; log partitions: {counts}"


class LiveLine:
    """A context manager that shows the newest line; any thread may call `show`.

    The first plain line is written after `first_after_s` at the earliest.
    """

    def __init__(
        self,
        *,
        is_terminal: bool,
        clock: Callable[[], float] = time.monotonic,
        write: Callable[[str], None] = write_note,
        first_after_s: float = 0.0,
    ) -> None:
        self._is_terminal = is_terminal
        self._clock = clock
        self._write = write
        self._last_plain = clock() - PLAIN_INTERVAL_S + first_after_s
        self._live: Live | None = None

    def __enter__(self: AnyLiveLine) -> AnyLiveLine:
        if self._is_terminal:
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True, highlight=False)
            self._live = Live("starting", console=console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, line: str, *, is_due: bool = False) -> None:
        """Show a line in place of the one before; a plain line that `is_due` is written at once."""
        now = self._clock()
        if self._live is not None:
            self._live.update(line)
        elif is_due:
            self._write(line)
        elif now - self._last_plain >= PLAIN_INTERVAL_S:
            self._last_plain = now
            self._write(line)


class ProgressDisplay(LiveLine):
    """A context manager that shows progress events; any thread may call it with an event.

    Until the first event it shows the stage of the start, at least every 5 s.
    """

    def __init__(
        self,
        *,
        is_terminal: bool,
        clock: Callable[[], float] = time.monotonic,
        write: Callable[[str], None] = write_dated_note,
        stage_interval_s: float | None = None,
    ) -> None:
        super().__init__(is_terminal=is_terminal, clock=clock, write=write)
        self._samples: deque[tuple[float, int, int]] = deque()
        own_interval_s = _LIVE_INTERVAL_S if is_terminal else PLAIN_INTERVAL_S
        self._stage_interval_s = own_interval_s if stage_interval_s is None else stage_interval_s
        self._has_begun = threading.Event()
        self._stages = threading.Thread(target=self._show_stages, name="stages", daemon=True)

    def __enter__(self) -> ProgressDisplay:
        enter_stage("starting")
        super().__enter__()
        self._stages.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._has_begun.set()
        self._stages.join()
        leave_stages()
        super().__exit__(*exception)

    def _show_stages(self) -> None:
        while not self._has_begun.wait(self._stage_interval_s):
            if (stage := newest_stage()) is not None:
                self.show(stage.line(time.monotonic()), is_due=True)

    def __call__(self, event: ProgressEvent) -> None:
        """Show a finished micro-batch."""
        self._has_begun.set()
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
