"""The HTTP server for the page, the API and the metrics."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from waitress.channel import HTTPChannel
from waitress.server import create_server
from waitress.task import ThreadedTaskDispatcher
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
_UNREAD_S = 60.0
"""For a client to go on with reading its answer."""
_PROBES = frozenset({"/health", "/ready"})
_FILES = 4_096
"""Of each connection, the socket and maybe a file of its answer is open."""


class _Channel(HTTPChannel):
    """A connection, which is closed if it is too slow to send a request or to read its answer.

    With too many connections, the one without a request for the longest time is closed: whoever
    opens many does not keep out others, such as probes of `/health`. Those that do not read their
    answer come last, and those whose request is being answered are not closed.

    A client may send requests before it has read the answers to earlier ones. Each of them waits
    until then, so that a connection holds one answer, and one place in the queue of requests.
    """

    def __init__(self, server: Any, sock: socket.socket, addr: Any, *arguments: Any, **named: Any):
        super().__init__(server, sock, addr, *arguments, **named)
        self._began_at = time.monotonic()
        self._not_parsed = b""
        channels = [other for other in server.active_channels.values() if other is not self]
        waiting = [other for other in channels if not other.requests]
        if len(channels) >= _CONNECTIONS and waiting:
            min(waiting, key=_Channel._turn).handle_close()

    def _turn(self) -> tuple[bool, float]:
        return self.total_outbufs_len > 0, self._began_at

    def received(self, data: bytes) -> bool:
        """Parse one request; the bytes after it wait."""
        lock: threading.Lock = self.requests_lock  # type: ignore[attr-defined]
        with lock:
            if self.will_close or self.close_when_flushed:
                return False
            while data and not self.requests:
                if self.request is None:
                    self._began_at = time.monotonic()
                    self.request = self.parser_class(self.adj)
                data = data[self.request.received(data) :]
                self._parsed()
            self._not_parsed += data
        return True

    def _parsed(self) -> None:
        request: Any = self.request
        if request.expect_continue and request.headers_finished and not self.sent_continue:
            self.send_continue()
        if request.completed:
            self.sent_continue = False
            self.request = None
            if not request.empty:
                self.requests = [request]
                server: Any = self.server
                server.add_task(self)

    def readable(self) -> bool:
        """Called at least once a second."""
        if self.request is not None and time.monotonic() - self._began_at > _REQUEST_S:
            self.will_close = True
        if self.total_outbufs_len:
            if time.time() - self.last_activity > _UNREAD_S:
                self.handle_close()
        elif self._not_parsed and not self.requests:
            data, self._not_parsed = self._not_parsed, b""
            try:
                self.received(data)
            except Exception:  # noqa: BLE001 - whatever a parser raises for bytes of a client
                # The loop of the server does not expect an error here, and would end.
                self.handle_error()
                return False
        return not self._not_parsed and bool(super().readable())


class _Dispatcher(ThreadedTaskDispatcher):
    """Threads that answer requests in their order, but probes first."""

    def add_task(self, task: Any) -> None:
        # A thread may end the request as soon as it is in the queue.
        is_probe = getattr(task.requests[0], "path", None) in _PROBES
        super().add_task(task)
        if is_probe:
            with self.lock:
                if task in self.queue:
                    self.queue.remove(task)
                    self.queue.appendleft(task)


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
    dispatcher = _Dispatcher()
    dispatcher.set_thread_count(_THREADS + streams)
    server: Any = create_server(
        app,
        map=sockets,
        _dispatcher=dispatcher,
        sockets=[listening],
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
    thread = threading.Thread(target=server.run, name="page", daemon=True)
    thread.start()
    try:
        yield address_of(listening, host)
    finally:
        # Worker threads wake the server thread by a descriptor, so they must stop first.
        server.task_dispatcher.shutdown(timeout=_SHUTDOWN_S)
        # Only the server thread can close the sockets while it waits for them. A worker thread may
        # wake it, too: the lock keeps it from closing the trigger before the trigger is pulled.
        with server.trigger.lock:
            server.trigger.thunks.append(lambda: _close(server, sockets))
            server.pull_trigger()
        thread.join(_SHUTDOWN_S)


def _close(server: Any, sockets: dict[int, Any]) -> None:
    for channel in list(server.active_channels.values()):
        # Also closes the temporary files of its answer.
        channel.handle_close()
    close_all(sockets, ignore_all=True)


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
