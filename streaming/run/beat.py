"""Periodic actions on a thread beside a query."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from streaming.errors import WriterFenced, first_line

logger = logging.getLogger(__name__)

_LONGEST_S: Final = 60.0
"""The interval of an action that takes long, at most; it may take longer than that itself."""


@contextmanager
def beating(
    name: str,
    interval: timedelta,
    action: Callable[[], None],
    *,
    first_after: timedelta = timedelta(0),
    most_share: float = 1.0,
) -> Iterator[None]:
    """Call `action` at each interval on a thread while the block runs; join the thread at the end.

    Missed calls are not repeated. A failed call is logged, and the next interval retries it. The
    thread ends if a newer writer has taken over the tables. If the action takes more than
    `most_share` of the time, the interval is longer, up to a minute.
    """
    block_ended = threading.Event()

    def beat() -> None:
        at = time.monotonic() + first_after.total_seconds()
        while not block_ended.wait(max(at - time.monotonic(), 0)):
            began = time.monotonic()
            try:
                action()
            except WriterFenced:
                # The run itself stops and logs the reason.
                return
            except Exception as error:
                logger.warning(
                    "%(job)s failed (%(error)s); retrying later",
                    {"job": name, "error": first_line(error)},
                )
                logger.debug("traceback of the warning above", exc_info=True)
            ended = time.monotonic()
            earliest = began + shortest_interval_s(ended - began, most_share)
            at = max(at + interval.total_seconds(), earliest, ended)

    thread = threading.Thread(target=beat, name=name)
    thread.start()
    try:
        yield
    finally:
        block_ended.set()
        thread.join()


def shortest_interval_s(duration_s: float, most_share: float) -> float:
    """Return the time between two starts of which an action takes at most a share.

    >>> [shortest_interval_s(duration_s, most_share=0.2) for duration_s in (0.1, 3, 30)]
    [0.5, 15.0, 60.0]
    """
    return min(duration_s / most_share, _LONGEST_S)
