"""A rate limit on wrong tokens, per client and in total."""

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
    """No token is checked for the next `wait_s` seconds."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"too many wrong tokens, retry in {wait_s:.0f} s")
        self.wait_s = wait_s


class Attempts:
    """Checks tokens and counts wrong ones.

    It keeps at most `IN_ALL` wrong attempts, which bounds its memory.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._wrong: deque[tuple[float, str]] = deque()

    def judge(self, client: str, is_right: Callable[[], bool]) -> bool:
        """Whether the token of a client is right.

        Raises:
            TooManyAttempts: the client, or all clients together, sent too many wrong tokens.
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
