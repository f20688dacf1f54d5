"""Something that is done again and again beside a query."""

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
    """Call `action` at each beat, on a thread, until the block ends; then wait for it.

    Missed beats are not repeated. A newer writer of the tables ends the thread.
    """
    ended = threading.Event()

    def beat() -> None:
        at = time.monotonic() + first_after.total_seconds()
        while not ended.wait(max(at - time.monotonic(), 0)):
            try:
                action()
            except WriterFenced:
                # The run ends and says why.
                return
            except Exception as error:
                logger.warning(
                    "%(job)s failed (%(error)s); trying again later",
                    {"job": name, "error": first_line(error)},
                )
                logger.debug("trace of the warning above", exc_info=True)
            at = max(at + interval.total_seconds(), time.monotonic())

    thread = threading.Thread(target=beat, name=name)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
