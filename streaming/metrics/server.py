"""The HTTP server for the dashboard and the metrics."""

from __future__ import annotations

import os
import socket
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

from waitress.server import create_server
from waitress.wasyncore import close_all

from streaming.errors import ConfigurationError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

_SHUTDOWN_S = 5
_THREADS = 16
"""More than all running and waiting queries and expensive pages use together."""


@contextmanager
def serving(
    app: WSGIApplication, *, host: str = "127.0.0.1", port: int = 0, option: str = "--port"
) -> Iterator[str]:
    """Serve while the block runs, and yield the address; port 0 means any free port.

    `option` is the option that sets another port.

    Raises:
        ConfigurationError: the server cannot listen on the address.
    """
    listening = _listening(host, port, option)
    sockets: dict[int, Any] = {}
    server: Any = create_server(app, map=sockets, sockets=[listening], threads=_THREADS, ident=None)
    thread = Thread(target=server.run, name="page", daemon=True)
    thread.start()
    shown = f"[{host}]" if ":" in host else host
    try:
        yield f"http://{shown}:{listening.getsockname()[1]}/"
    finally:
        # Worker threads wake the server thread by a descriptor, so they must stop first.
        server.task_dispatcher.shutdown(timeout=_SHUTDOWN_S)
        # Only the server thread can close the sockets while it waits for them.
        server.trigger.pull_trigger(lambda: close_all(sockets, ignore_all=True))
        thread.join(_SHUTDOWN_S)


def open_browser(address: str) -> None:
    """Open a page in the browser if this is an interactive session with a screen."""
    has_screen = sys.platform in {"darwin", "win32"} or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if has_screen and sys.stderr.isatty():
        webbrowser.open(address)


def _listening(host: str, port: int, option: str) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another {option}"
        ) from error
