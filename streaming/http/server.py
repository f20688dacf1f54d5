"""The HTTP server for the page, the API and the metrics."""

from __future__ import annotations

import os
import socket
import sys
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

from waitress.channel import HTTPChannel
from waitress.server import create_server
from waitress.wasyncore import close_all

from streaming.errors import ConfigurationError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

_SHUTDOWN_S = 5
_THREADS = 16
"""More than all running and waiting queries and expensive pages use together."""
_MOST_BODY_BYTES = 16 << 10
"""Only the form of the token has a body."""
_CONNECTIONS = 512
"""A browser keeps up to six connections open."""
_MORE_IF_BUSY = _CONNECTIONS
"""Connections beyond the limit, while the server answers a request of each other one."""
_REQUEST_S = 10.0
"""For a whole request to arrive."""


class _Channel(HTTPChannel):
    """A connection, which is closed if it is too slow to send a request.

    With too many connections, the one without a request for the longest time is closed: whoever
    opens many does not keep out others, such as probes of `/health`. Those that do not read their
    answer come last, and those whose request is being answered are not closed.
    """

    def __init__(self, server: Any, sock: socket.socket, addr: Any, *arguments: Any, **named: Any):
        super().__init__(server, sock, addr, *arguments, **named)
        self._began_at = time.monotonic()
        channels = [other for other in server.active_channels.values() if other is not self]
        waiting = [other for other in channels if not other.requests]
        if len(channels) >= _CONNECTIONS and waiting:
            min(waiting, key=_Channel._turn).handle_close()

    def _turn(self) -> tuple[bool, float]:
        return self.total_outbufs_len > 0, self._began_at

    def received(self, data: bytes) -> bool:
        if self.request is None:
            self._began_at = time.monotonic()
        return bool(super().received(data))

    def readable(self) -> bool:
        """Called at least once a second."""
        if self.request is not None and time.monotonic() - self._began_at > _REQUEST_S:
            self.will_close = True
        return bool(super().readable())


@contextmanager
def serving(
    app: WSGIApplication,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    option: str = "--port",
    streams: int = 0,
) -> Iterator[str]:
    """Serve while the block runs, and yield the address; port 0 means any free port.

    `option` is the option that sets another port, and `streams` the number of responses that may
    stay open; each of them holds a thread.

    Raises:
        ConfigurationError: the server cannot listen on the address.
    """
    listening = listening_socket(host, port, option)
    sockets: dict[int, Any] = {}
    server: Any = create_server(
        app,
        map=sockets,
        sockets=[listening],
        threads=_THREADS + streams,
        connection_limit=_CONNECTIONS + _MORE_IF_BUSY,
        max_request_body_size=_MOST_BODY_BYTES,
        # select() cannot wait for so many.
        asyncore_use_poll=True,
        # Reads on during a response and so notices that the client of a stream has left. A client
        # that ends only its sending side counts as gone, too.
        channel_request_lookahead=1 if streams else 0,
        ident=None,
    )
    server.channel_class = _Channel
    thread = Thread(target=server.run, name="page", daemon=True)
    thread.start()
    try:
        yield address_of(listening, host)
    finally:
        # Worker threads wake the server thread by a descriptor, so they must stop first.
        server.task_dispatcher.shutdown(timeout=_SHUTDOWN_S)
        # Only the server thread can close the sockets while it waits for them. A worker thread may
        # wake it, too: the lock keeps it from closing the trigger before the trigger is pulled.
        with server.trigger.lock:
            server.trigger.thunks.append(lambda: close_all(sockets, ignore_all=True))
            server.pull_trigger()
        thread.join(_SHUTDOWN_S)


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
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another {option}"
        ) from error
