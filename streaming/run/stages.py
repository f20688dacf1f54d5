"""The stage of a start: what `run` and `demo` wait for until a micro-batch has ended.

The code that enters a stage says so here, and `ProgressDisplay` shows the newest stage. A process
has one start at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage; `detail` returns how far it is."""

    name: str
    detail: Callable[[], str] = lambda: ""
    began_at: float = field(default_factory=time.monotonic)

    def line(self, now: float) -> str:
        """Return the stage and how long it has lasted.

        >>> Stage("starting Spark", began_at=10.0).line(17.4)
        'starting Spark (7 s)'
        """
        return f"{self.name}{self.detail()} ({now - self.began_at:.0f} s)"


_newest: list[Stage] = []


def enter_stage(name: str, detail: Callable[[], str] = lambda: "") -> None:
    """Name the work that begins now and lasts until the next stage."""
    _newest[:] = [Stage(name, detail)]


def leave_stages() -> None:
    """Say that nothing is waited for, or something that may never come."""
    _newest.clear()


def newest_stage() -> Stage | None:
    """Return the stage that a start is in, None outside a start."""
    return next(iter(_newest), None)
