"""Something that is done again and again beside a query."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta


@contextmanager
def beating(name: str, interval: timedelta, action: Callable[[], None]) -> Iterator[None]:
    """Call `action` now and at each beat, on a thread, until the block ends; then wait for it.

    Beats that were missed are not made up for.
    """
    ended = threading.Event()

    def beat() -> None:
        at = time.monotonic()
        while not ended.wait(max(at - time.monotonic(), 0)):
            action()
            at = max(at + interval.total_seconds(), time.monotonic())

    thread = threading.Thread(target=beat, name=name)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
