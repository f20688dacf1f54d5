"""An S3 that fails in front of one that does not: `python -m tests.faults.faulty_store ADDRESS`.

It prints its own address. The body of a POST to `COMMANDS` is a command:

| command | the store |
|---|---|
| `sound`, `faulty`, `down`, `500`, `503`, `hangs` | answers like this from now on |
| `hold POINT,POINT` | holds the first write at one of these points, and prints the point |
| `go`, `drop` | lets the held write go on, or cuts its connection |

A point is `before` or `after`, and a write as `written` names it. At the end of standard input it
prints how often it had each fault.
"""

from __future__ import annotations

import json
import random
import re
import sys
import threading
import time
from collections import Counter
from http import HTTPStatus
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import click

from streaming.tables.schemas import ALL_TABLES
from streaming.tables.writer_epoch import HOLDER

COMMANDS: Final = "/-/commands"
SOUND: Final = "sound"
FAULTY: Final = "faulty"
DOWN: Final = "down"
ERROR: Final = "500"
SLOW_DOWN: Final = "503"
HANGS: Final = "hangs"
_MODES: Final = (SOUND, FAULTY, DOWN, ERROR, SLOW_DOWN, HANGS)
HOLD: Final = "hold"
GO: Final = "go"
DROP: Final = "drop"
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

_HOLDER: Final = HOLDER.encode()
_COMMIT: Final = re.compile(r"/_delta_log/(\d{20})\.json$")
_IN_TABLE: Final = re.compile(rf"/({'|'.join(table.name for table in ALL_TABLES)})/")
_IN_CHECKPOINT: Final = re.compile(r"/query-[^/]+/(offsets|commits|sources|metadata)")
BEFORE: Final = "before"
AFTER: Final = "after"
CREATION: Final = "the creation of a table"
FENCE: Final = "the fence of a table"
COMMIT_OF: Final = "the commit of "
FILE_OF: Final = "a data file of "
OTHER_WRITES: Final = (
    *("a file beside the commits", "a staged file"),
    *(f"{part} of the checkpoint" for part in ("offsets", "commits", "sources", "metadata")),
)
WRITES: Final = (
    *(CREATION, FENCE),
    *(f"{kind}{table.name}" for kind in (COMMIT_OF, FILE_OF) for table in ALL_TABLES),
    *OTHER_WRITES,
)


def written(method: str, address: str, body: bytes) -> str | None:
    """The write that a request is, as one of `WRITES`; None if it is none of them.

    >>> written("PUT", "/bucket/tables/groups/_delta_log/00000000000000000007.json", b"{}")
    'the commit of groups'
    """
    path = address.partition("?")[0]
    if method != "PUT":
        return None
    if "/staged/" in path:
        return OTHER_WRITES[1]
    if part := _IN_CHECKPOINT.search(path):
        return f"{part[1]} of the checkpoint"
    table, commit = _IN_TABLE.search(path), _COMMIT.search(path)
    if table is None:
        return None
    if commit is None:
        return OTHER_WRITES[0] if "/_delta_log/" in path else f"{FILE_OF}{table[1]}"
    if int(commit[1]) == 0:
        return CREATION
    return FENCE if _HOLDER in body else f"{COMMIT_OF}{table[1]}"


class _Store(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: str) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.behind = address
        self.mode = SOUND
        self.is_first = False
        self.faults: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._awaited: frozenset[str] = frozenset()
        self._is_held = self._is_dropped = False

    def handle_error(self, *_: object) -> None:
        """Nothing: a client that was killed, or gave up, has closed the connection."""

    def obey(self, command: str) -> None:
        """Change by a command."""
        word, _, points = command.partition(" ")
        with self._changed:
            if word == HOLD:
                self._awaited = frozenset(points.split(","))
            elif word in _MODES:
                self.is_first, self.mode = True, word
            else:
                self._is_held, self._is_dropped = False, word == DROP
            self._changed.notify_all()

    def passes(self, when: str, write: str | None) -> bool:
        """Hold a write if its point is awaited; whether it may go on."""
        point = f"{when} {write}"
        with self._changed:
            if point not in self._awaited:
                return True
            self._awaited, self._is_held = frozenset(), True
            click.echo(point)
            self._changed.wait_for(lambda: not self._is_held)
            return not self._is_dropped

    def hang(self) -> None:
        """Wait while the store hangs."""
        with self._changed:
            if self.mode == HANGS:
                self.faults[HANGS] += 1
                self._changed.wait_for(lambda: self.mode != HANGS)

    def fault(self) -> str | None:
        """The fault of the next request."""
        if self.mode in (ERROR, SLOW_DOWN):
            fault = self.mode
        elif self.mode == DOWN:
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
        if len(body) < length:
            # Its client was killed meanwhile. A store discards half a request.
            return self._cut()
        if self.path == COMMANDS:
            self.server.obey(body.decode())
            return self._send(200, {}, b"")
        write = written(self.command, self.path, body)
        if not self.server.passes(BEFORE, write):
            return self._cut()
        self.server.hang()
        fault = self.server.fault()
        if fault in (ERROR, SLOW_DOWN):
            return self._send(int(fault), {}, b"")
        if fault == FAULTS[2]:
            return self._cut()
        status, headers, content = self._forward(body)
        if status < HTTPStatus.BAD_REQUEST and not self.server.passes(AFTER, write):
            return self._cut()
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
    sys.stdin.read()
    click.echo(json.dumps(store.faults))


if __name__ == "__main__":
    main()
