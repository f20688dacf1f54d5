"""Server-sent events: responses that stay open and tell the browser when something changes.

Each open stream holds a worker thread, so their number is limited, and the server needs as many
threads more (`serving(streams=)`). Threads that wait cost little, and the limit keeps the others
for pages. A client that is refused polls instead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from flask import Response, request

from streaming.views.sql.slots import Busy

HEARTBEAT_S: Final = 15.0
LASTS_S: Final = 600.0
"""A stream ends after this time. The browser opens it again, and its access is checked again."""
_RETRY_MS: Final = 2_000
_LOOKS_EVERY_S: Final = 1.0


class Streams:
    """The open streams of a server.

    Args:
        at_most: the maximum number of open streams.
    """

    def __init__(self, at_most: int) -> None:
        self.at_most = at_most
        self._free = threading.BoundedSemaphore(at_most)
        self._is_closed = threading.Event()

    def response(self, current: Callable[[], str]) -> Response:
        """A stream that sends `current()` at its start, and each time that it has changed.

        Raises:
            Busy: as many streams are open as there may be.
        """
        if self._is_closed.is_set() or not self._free.acquire(blocking=False):
            raise Busy(f"At most {self.at_most} streams may be open. Poll the page instead.")
        is_gone: Callable[[], bool] = request.environ.get("waitress.client_disconnected", bool)
        response = Response(
            self._events(current, is_gone),
            mimetype="text/event-stream",
            # Proxies may neither collect nor compress the events.
            headers={"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"},
        )
        response.call_on_close(self._free.release)
        return response

    def close(self) -> None:
        """End all streams, and refuse new ones."""
        self._is_closed.set()

    def _events(self, current: Callable[[], str], is_gone: Callable[[], bool]) -> Iterator[str]:
        ends_at = time.monotonic() + LASTS_S
        sent = current()
        yield f"retry: {_RETRY_MS}\ndata: {sent}\n\n"
        sent_at = time.monotonic()
        while not self._is_closed.wait(_LOOKS_EVERY_S) and not is_gone():
            now, text = time.monotonic(), current()
            if now >= ends_at:
                return
            if text != sent or now >= sent_at + HEARTBEAT_S:
                yield ":\n\n" if text == sent else f"data: {text}\n\n"
                sent, sent_at = text, now
