"""The clocks of a process: the time of day without its jumps, and the seconds that passed.

Somebody may set the clock of the machine, and a program that sets it may be wrong for a while. The
tables would keep the wrong times: samples and snapshots of the future hide those that follow. So
the time of day is that of the start, plus the seconds that passed since. It follows the machine's
clock in steps of up to a second, and at once if a broker's time confirms a jump ahead, as after the
pause of a virtual machine. It follows any other jump after ten minutes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Final

logger = logging.getLogger(__name__)

FOLLOWED: Final = timedelta(seconds=1)
"""Steps of the machine's clock up to this are followed at once."""
FOLLOWED_AFTER_S: Final = 600.0
"""A jump that lasts longer is followed."""
_NEVER_STOPS: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Only Linux has the first one; on macOS the second one goes on while the machine sleeps."""


_EPOCH: Final = datetime.fromtimestamp(0, timezone.utc)


def moment_ms(moment: datetime) -> int:
    """A moment as milliseconds since the epoch, rounded down as in the columns of the tables."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def clock_s() -> float:
    """The time in seconds by a clock that a suspend does not stop, and that nobody sets."""
    return time.clock_gettime(_NEVER_STOPS)


class SteadyClock:
    """The time of day of a process.

    Args:
        wall: the machine's clock, which may jump.
        passed_s: a clock in seconds that does not jump.
    """

    def __init__(
        self,
        wall: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        passed_s: Callable[[], float] = clock_s,
    ) -> None:
        self._wall = wall
        self._passed_s = passed_s
        self._lock = threading.Lock()
        self._at = wall()
        self._at_s = passed_s()
        self._jump = timedelta()
        self._jumped_at_s = 0.0
        self._confirmed_at: datetime | None = None

    def now(self) -> datetime:
        """The current time in UTC."""
        with self._lock:
            wall, now_s = self._wall(), self._passed_s()
            expected = self._at + timedelta(seconds=now_s - self._at_s)
            self._at = wall if self._is_followed(wall - expected, wall, now_s) else expected
            self._at_s = now_s
            return self._at

    def confirm(self, at: datetime) -> None:
        """A broker's time, which has passed if its clock is right."""
        with self._lock:
            self._confirmed_at = at

    def _is_followed(self, jump: timedelta, wall: datetime, now_s: float) -> bool:
        """Whether the clock goes on with the machine's clock, which differs by `jump`."""
        if abs(jump) <= FOLLOWED:
            self._jump = timedelta()
            return True
        if abs(jump - self._jump) > FOLLOWED:
            logger.warning(
                "the clock of this machine jumped by %(jump)s; if it stays there for ten minutes, "
                "or a broker confirms it, its time counts",
                {"jump": f"{jump.total_seconds():+.0f} s"},
            )
            self._jump, self._jumped_at_s = jump, now_s
        confirmed_at = self._confirmed_at
        is_confirmed = (
            confirmed_at is not None
            and confirmed_at > wall - jump + FOLLOWED
            and abs(wall - confirmed_at) < jump / 2
        )
        is_followed = is_confirmed or now_s - self._jumped_at_s >= FOLLOWED_AFTER_S
        if is_followed:
            logger.warning(
                "following the clock of this machine, which jumped by %(jump)s",
                {"jump": f"{jump.total_seconds():+.0f} s"},
            )
            self._jump = timedelta()
        return is_followed


_CLOCK: Final = SteadyClock()


def utc_now() -> datetime:
    """The current time in UTC, without the jumps of the machine's clock."""
    return _CLOCK.now()


def earliest_now() -> datetime:
    """The earlier of the two times: that of `utc_now` and that of the machine's clock."""
    return min(utc_now(), datetime.now(timezone.utc))


def confirm(at: datetime) -> None:
    """Tell the clock a broker's time; see `SteadyClock.confirm`."""
    _CLOCK.confirm(at)
