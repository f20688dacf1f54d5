"""Serving the page."""

from __future__ import annotations

import os
import socket
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from flask import Flask
from waitress.server import create_server
from waitress.wasyncore import close_all, loop

from streaming.errors import ConfigurationError

_THREADS = 8
_LOOP_S = 1.0


@contextmanager
def serving(
    app: Flask, *, host: str = "127.0.0.1", port: int = 0, option: str = "--port"
) -> Iterator[str]:
    """Serve while the block runs; gives the address, port 0 takes any free one.

    `option` is how the user names another port.

    Raises:
        ConfigurationError: nobody can listen there.
    """
    listening = _listening(host, port, option)
    open_sockets: dict[int, Any] = {}
    server = create_server(app, open_sockets, sockets=[listening], threads=_THREADS, ident=None)
    stop = Event()

    def run() -> None:
        while not stop.is_set():
            loop(timeout=_LOOP_S, map=open_sockets, count=1)

    serving_thread = Thread(target=run, name="page", daemon=True)
    serving_thread.start()
    shown = f"[{host}]" if ":" in host else host
    try:
        yield f"http://{shown}:{listening.getsockname()[1]}/"
    finally:
        # The loop fails on a socket that is closed while it waits for it: it ends first.
        server.trigger.pull_trigger(stop.set)  # type: ignore[union-attr]
        serving_thread.join()
        close_all(open_sockets, ignore_all=True)


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
