"""Periodic actions on a thread beside a query."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from streaming.errors import WriterFenced, first_line

logger = logging.getLogger(__name__)


@contextmanager
def beating(
    name: str,
    interval: timedelta,
    action: Callable[[], None],
    *,
    first_after: timedelta = timedelta(0),
) -> Iterator[None]:
    """Call `action` at each interval on a thread while the block runs; join the thread at the end.

    Missed calls are not repeated. A failed call is logged, and the next interval retries it. The
    thread ends if a newer writer has taken over the tables.
    """
    block_ended = threading.Event()

    def beat() -> None:
        at = time.monotonic() + first_after.total_seconds()
        while not block_ended.wait(max(at - time.monotonic(), 0)):
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
            at = max(at + interval.total_seconds(), time.monotonic())

    thread = threading.Thread(target=beat, name=name)
    thread.start()
    try:
        yield
    finally:
        block_ended.set()
        thread.join()
