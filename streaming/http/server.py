"""The HTTP server of the page, the API, the metrics and the agents: uvicorn, with limits."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final
from urllib.parse import unquote

import anyio
import uvicorn
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from streaming.errors import ConfigurationError

MOST_BODY_BYTES: Final = (16 << 10) - 1
"""Only the form of the token has a body."""
_SHUTDOWN_S: Final = 5
_JOIN_S: Final = 10.0
_THREADS = 80
"""More than all running and waiting queries, expensive pages and requests that wait for a snapshot:
static files are read in threads, too."""
_MOST_HEADER_BYTES: Final = 256 << 10
"""The address of the SQL page holds the query."""
_CONNECTIONS = 512
"""A browser keeps up to six connections open."""
_BACKLOG: Final = 1_024
_ACCEPTED_AT_ONCE: Final = 32
"""Few of `_CONNECTIONS`: between two times, the loop reads the requests of those that it has."""
_MORE_IF_BUSY = _CONNECTIONS
"""Connections beyond the limit, while the server answers a request of each other one."""
_REQUEST_S = 10.0
"""For the headers of a request to arrive, and for its body."""
_BODY_S = 9.0
"""For the body, before the answer that it is missing: less than `_REQUEST_S`, so that the client
gets the answer."""
_UNREAD_S = 60.0
"""For a client to go on with reading its answer."""
_FILES: Final = 4_096
"""Of each connection, the socket and maybe a file of its answer is open."""


class _Connection(H11Protocol):
    """A connection, which is closed if it is too slow to send a request or to read its answer.

    With too many connections, the one with the earliest deadline is closed: whoever opens many does
    not keep out others, such as probes of `/health`. A connection whose request is being answered
    has no deadline.

    A client may send requests before it has read the answers to earlier ones. Each of them waits
    until then, so that a connection holds one answer.
    """

    _deadline: asyncio.TimerHandle | None = None
    _cycle_without_body: object = None
    """The request whose body has a deadline: pieces of the body do not move it."""
    _is_answer_unread = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_request()
        if len(self.connections) <= _CONNECTIONS:
            return
        waiting = {
            other: other._deadline.when()
            for other in self.connections
            if isinstance(other, _Connection) and other is not self and other._deadline is not None
        }
        if waiting:
            min(waiting, key=waiting.__getitem__)._abort()
        elif len(self.connections) > _CONNECTIONS + _MORE_IF_BUSY:
            self._abort()

    def handle_events(self) -> None:
        super().handle_events()
        if not self._is_answering or self.flow.write_paused:
            return
        if not self.cycle.more_body:
            self._stop_waiting()
        elif self._cycle_without_body is not self.cycle:
            self._cycle_without_body = self.cycle
            self._wait(_REQUEST_S, self.transport.abort)

    def on_response_complete(self) -> None:
        if self.flow.write_paused:
            self._is_answer_unread = True
            return
        self._wait_for_request()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._is_answering:
            self._stop_waiting()
        elif self._is_answer_unread:
            self._is_answer_unread = False
            self.on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _abort(self) -> None:
        self.connections.discard(self)
        self._stop_waiting()
        self.transport.abort()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_request(self) -> None:
        self._wait(_REQUEST_S, self._require_request)

    def _require_request(self) -> None:
        # The end of the answer before it may still be unread.
        if self.transport.get_write_buffer_size():
            self._wait_for_reading()
        else:
            self.transport.abort()

    def _wait_for_reading(self) -> None:
        unread_bytes = self.transport.get_write_buffer_size()
        self._wait(_UNREAD_S, partial(self._require_reading, unread_bytes))

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(seconds, then)

    def _require_reading(self, unread_bytes: int) -> None:
        if self.transport.get_write_buffer_size() < unread_bytes:
            self._wait_for_reading()
        else:
            self.transport.abort()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class LimitedBody:
    """An ASGI application that gets whole bodies of requests, none of which is large or slow."""

    def __init__(self, app: ASGIApp, most_bytes: int = MOST_BODY_BYTES) -> None:
        self._app, self._most_bytes = app, most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse it with 408 or 413."""
        headers = Headers(raw=scope.get("headers", []))
        length = headers.get("content-length")
        if length is None and "transfer-encoding" not in headers:
            await self._app(scope, receive, send)
            return
        refusal = 413, f"A request has at most {self._most_bytes} bytes."
        body = None
        try:
            if length is None or int(length) <= self._most_bytes:
                body = await asyncio.wait_for(self._body(receive), _BODY_S)
        except asyncio.TimeoutError:
            refusal = 408, f"The request did not arrive within {_BODY_S:g} s."
        if body is None:
            status, text = refusal
            response = PlainTextResponse(f"{text}\n", status, {"Connection": "close"})
            await response(scope, receive, send)
            return
        messages: list[Message] = [{"type": "http.request", "body": body}]

        async def receive_again() -> Message:
            return messages.pop() if messages else await receive()

        await self._app(scope, receive_again, send)

    async def _body(self, receive: Receive) -> bytes | None:
        """The body of a request; None if it is too large."""
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > self._most_bytes:
                return None
            if not message.get("more_body", False):
                return bytes(body)


class _OriginForm:
    """An ASGI application that gets the path of a target that is a whole URL (RFC 9112, 3.2.2)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scheme, _, rest = scope.get("raw_path", b"").partition(b"://")
        if scheme.lower() in {b"http", b"https"}:
            host, _, path = rest.partition(b"/")
            others = [header for header in scope["headers"] if header[0] != b"host"]
            scope = {
                **scope,
                "path": f"/{unquote(path.decode('ascii'))}",
                "raw_path": b"/" + path,
                # The host of the URL replaces that of the header.
                "headers": [(b"host", host), *others],
            }
        await self._app(scope, receive, send)


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Leave out the traceback of a request that a stop cancels: uvicorn has logged their number."""
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
        await super().startup(sockets)
        for listening in sockets or ():
            # The loop has set it to the number of connections that it accepts at once.
            listening.listen(_BACKLOG)


@contextmanager
def serving(
    app: ASGIApp,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    option: str = "--port",
    most_body_bytes: int | None = MOST_BODY_BYTES,
) -> Iterator[str]:
    """Serve while the block runs, and yield the address; port 0 means any free port.

    `option` is the option that sets another port. `most_body_bytes` is None for an application that
    limits bodies itself.

    Raises:
        ConfigurationError: the server cannot listen on the address.
    """
    listening = listening_socket(host, port, option)
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)
    config = uvicorn.Config(
        _OriginForm(app if most_body_bytes is None else LimitedBody(app, most_body_bytes)),
        log_config=None,
        # Any client could fill the log with warnings of its malformed requests.
        log_level="error",
        access_log=False,
        server_header=False,
        # A client must not choose the address or the scheme of its request.
        proxy_headers=False,
        ws="none",
        http=_Connection,
        backlog=_ACCEPTED_AT_ONCE,
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    server = _Server(config)
    # In a thread of its own it leaves the signals to the command.
    thread = threading.Thread(target=server.run, args=([listening],), name="page", daemon=True)
    thread.start()
    try:
        yield address_of(listening, host)
    finally:
        server.should_exit = True
        thread.join(_JOIN_S)
        listening.close()


def address_of(listening: socket.socket, host: str) -> str:
    """The address that leads to a socket."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}/"


def open_browser(address: str) -> None:
    """Open a page in the browser if this is an interactive session with a screen."""
    has_screen = sys.platform in {"darwin", "win32"} or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if has_screen and sys.stderr.isatty():
        webbrowser.open(address)


def listening_socket(host: str, port: int, option: str = "--port") -> socket.socket:
    """A socket that listens on an address; port 0 means any free port.

    Raises:
        ConfigurationError: the address or port cannot be used.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        _allow_open_files()
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another {option}"
        ) from error


def _allow_open_files() -> None:
    """Raise the limit of open files of this process, as far as the system permits."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
