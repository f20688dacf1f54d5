"""Serving the page."""

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

_ENDS_WITHIN_S = 5
_THREADS = 16
"""More than queries and pages that compute much take together, waiting ones included."""


@contextmanager
def serving(
    app: WSGIApplication, *, host: str = "127.0.0.1", port: int = 0, option: str = "--port"
) -> Iterator[str]:
    """Serve while the block runs; gives the address, port 0 takes any free one.

    `option` is how the user names another port.

    Raises:
        ConfigurationError: nobody can listen there.
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
        # A thread that answers wakes the other one by a descriptor: none must be closed by then.
        server.task_dispatcher.shutdown(timeout=_ENDS_WITHIN_S)
        # Only the thread that waits for sockets can close them while it does.
        server.trigger.pull_trigger(lambda: close_all(sockets, ignore_all=True))
        thread.join(_ENDS_WITHIN_S)


def open_browser(address: str) -> None:
    """Open a page where somebody sits in front of a screen."""
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
            f"cannot listen on {host}:{port}: {error.strerror or error}; name another {option}"
        ) from error
