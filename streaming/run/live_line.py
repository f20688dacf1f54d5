"""A changing line on stderr: live on a terminal, else a plain line every 5 s."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from streaming.run.stderr import write_note

if TYPE_CHECKING:
    from rich.live import Live

AnyLiveLine = TypeVar("AnyLiveLine", bound="LiveLine")

PLAIN_INTERVAL_S = 5.0
"""At most one plain line is written in this time, to keep log files short."""


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

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
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
