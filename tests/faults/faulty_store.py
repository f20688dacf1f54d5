"""An S3 that fails in front of one that does not: `python -m tests.faults.faulty_store ADDRESS`.

It prints its own address. Each line of standard input is a mode: `sound`, `faulty`, or `down`. At
the end of its input it prints how often it had each fault.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import Counter
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import click

SOUND: Final = "sound"
FAULTY: Final = "faulty"
DOWN: Final = "down"
FAULTS: Final = (
    "500",
    "503",
    "no answer, and not done",
    "no answer, but done",
    "500, but done",
    "half an answer",
    "a late answer",
)
_SHARE: Final = 0.1
"""Of the requests after the first one; a client repeats each up to ten times."""
_LATE_S: Final = 1.5
_OF_THIS_CONNECTION: Final = {"connection", "content-length", "host", "transfer-encoding"}


class _Store(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: str) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.behind = address
        self.mode = SOUND
        self.is_first = False
        self.faults: Counter[str] = Counter()

    def handle_error(self, *_: object) -> None:
        """Nothing: a client that was killed, or gave up, has closed the connection."""

    def fault(self) -> str | None:
        """The fault of the next request."""
        if self.mode == DOWN:
            fault = FAULTS[2]
        elif self.mode == FAULTY and (self.is_first or random.random() < _SHARE):
            fault, self.is_first = random.choice(FAULTS), False
        else:
            return None
        self.faults[DOWN if self.mode == DOWN else fault] += 1
        return fault


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Store
    _behind = threading.local()

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        fault = self.server.fault()
        if fault in ("500", "503"):
            return self._send(int(fault), {}, b"")
        if fault == FAULTS[2]:
            return self._cut()
        status, headers, content = self._forward(body)
        if fault == FAULTS[3]:
            return self._cut()
        if fault == FAULTS[4]:
            return self._send(500, {}, b"")
        if fault == FAULTS[6]:
            time.sleep(_LATE_S)
        self._send(status, headers, content, is_half=fault == FAULTS[5])
        return None

    do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = _answer

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection: HTTPConnection | None = getattr(self._behind, "connection", None)
        if connection is None:
            connection = self._behind.connection = HTTPConnection(self.server.behind)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _OF_THIS_CONNECTION}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        kept = {k: v for k, v in answer.getheaders() if k.lower() not in _OF_THIS_CONNECTION}
        if self.command == "HEAD":
            kept["Content-Length"] = answer.getheader("Content-Length") or "0"
        return answer.status, kept, content

    def _send(
        self, status: int, headers: dict[str, str], content: bytes, *, is_half: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if is_half else content)
        if is_half:
            self._cut()

    def _cut(self) -> None:
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing: the caller reads standard output."""


def main() -> None:
    """Serve until standard input ends."""
    store = _Store(sys.argv[1])
    threading.Thread(target=store.serve_forever, daemon=True).start()
    click.echo(f"http://127.0.0.1:{store.server_port}")
    for line in sys.stdin:
        store.is_first, store.mode = True, line.strip()
    click.echo(json.dumps(store.faults))


if __name__ == "__main__":
    main()
