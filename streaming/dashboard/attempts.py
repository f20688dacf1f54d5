"""A limit on wrong tokens: for each client, and for all of them together."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

PER_CLIENT: Final = 10
IN_ALL: Final = 100
WITHIN_S: Final = 60.0


class TooManyAttempts(Exception):
    """Nothing is compared for so many seconds."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"too many wrong tokens: try again in {wait_s:.0f} s")
        self.wait_s = wait_s


class Attempts:
    """Judges tokens, and counts those that are wrong.

    It remembers `IN_ALL` of them at most, however many come.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._wrong: deque[tuple[float, str]] = deque()

    def judge(self, client: str, is_right: Callable[[], bool]) -> bool:
        """Whether a client's token is right.

        Raises:
            TooManyAttempts: the client, or all together, gave too many wrong ones.
        """
        with self._lock:
            now = self._clock()
            while self._wrong and self._wrong[0][0] <= now - WITHIN_S:
                self._wrong.popleft()
            own = [at for at, whose in self._wrong if whose == client]
            for times, most in ((own, PER_CLIENT), ([at for at, _ in self._wrong], IN_ALL)):
                if len(times) >= most:
                    raise TooManyAttempts(times[0] + WITHIN_S - now)
            if is_right():
                return True
            self._wrong.append((now, client))
            return False
