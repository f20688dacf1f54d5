"""A server that ends, and bodies that it does not take."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable
from typing import Any

import pytest
import requests
from waitress import trigger

from streaming.http.server import serving
from tests.support.eventually import wait_until


def app(_environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"answer"]


@pytest.mark.parametrize(
    ("header", "sent"),
    [
        ("Content-Length: 300000000", b""),
        ("Transfer-Encoding: chunked", b"4000\r\n" + bytes(0x4000) + b"\r\n"),
    ],
)
def test_a_large_body_is_refused_before_it_is_read(header: str, sent: bytes) -> None:
    """The client has sent little or nothing of it when it gets the answer."""
    with serving(app) as address:
        host, _, port = address.removeprefix("http://").rstrip("/").partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(f"POST / HTTP/1.1\r\nHost: {host}\r\n{header}\r\n\r\n".encode() + sent)
            answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_it_ends_beside_a_worker_thread_that_wakes_the_server_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ending = threading.Event()

    def pull(self: Any) -> None:
        # The server thread waits, and takes the lock for each thunk. If the lock is held, it cannot
        # close the trigger now.
        is_held = self.lock.locked()
        if ending.is_set():
            # The byte of a worker thread, just before the byte of the end.
            os.write(self.trigger, b"x")
            wait_until(lambda: is_held or not self._fds)
        os.write(self.trigger, b"x")

    monkeypatch.setattr(trigger.trigger, "_physical_pull", pull)
    with serving(app) as address:
        assert requests.get(address, timeout=60).text == "answer"
        ending.set()
    with pytest.raises(requests.ConnectionError):
        requests.get(address, timeout=60)
