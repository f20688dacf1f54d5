"""Server-sent events: responses that stay open and tell the browser when something changes.

Their number is limited, since each takes a connection. A client that is refused polls instead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Final

import anyio
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from streaming.views.sql.slots import Busy

HEARTBEAT_S: Final = 15.0
LASTS_S: Final = 600.0
"""A stream ends after this time. The browser opens it again, and its access is checked again."""
_RETRY_MS: Final = 2_000
_LOOKS_EVERY_S: Final = 1.0
_LOOKS_AT_ONCE: Final = 2
"""Threads of their own: pages that compute much do not hold up the streams."""


class Streams:
    """The open streams of a server.

    Args:
        at_most: the maximum number of open streams.
    """

    def __init__(self, at_most: int) -> None:
        self.at_most = at_most
        self._free = threading.BoundedSemaphore(at_most)
        self._looks = anyio.CapacityLimiter(_LOOKS_AT_ONCE)
        self._is_closed = False

    def response(self, current: Callable[[], str]) -> StreamingResponse:
        """A stream that sends `current()` at its start, and each time that it has changed.

        Raises:
            Busy: as many streams are open as there may be.
        """
        if self._is_closed or not self._free.acquire(blocking=False):
            raise Busy(f"At most {self.at_most} streams may be open. Poll the page instead.")
        return _Stream(self._events(current), self._free)

    def close(self) -> None:
        """End all streams, and refuse new ones."""
        self._is_closed = True

    async def _events(self, current: Callable[[], str]) -> AsyncIterator[str]:
        async def look() -> str:
            return await anyio.to_thread.run_sync(current, limiter=self._looks)

        ends_at = time.monotonic() + LASTS_S
        sent = await look()
        yield f"retry: {_RETRY_MS}\ndata: {sent}\n\n"
        sent_at = time.monotonic()
        while not self._is_closed:
            await anyio.sleep(_LOOKS_EVERY_S)
            now, text = time.monotonic(), await look()
            if now >= ends_at:
                return
            if text != sent or now >= sent_at + HEARTBEAT_S:
                yield ":\n\n" if text == sent else f"data: {text}\n\n"
                sent, sent_at = text, now


class _Stream(StreamingResponse):
    """A stream, which ends when its client leaves, and then frees its place."""

    def __init__(self, events: AsyncIterator[str], place: threading.BoundedSemaphore) -> None:
        # Proxies may neither collect nor compress the events.
        headers = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] == "HEAD":
                # Starlette would wait for the end of the stream.
                await Response(None, headers=self.headers)(scope, receive, send)
            else:
                await super().__call__(scope, receive, send)
        finally:
            self._place.release()
