"""Who is told of alerts in tests: real servers on 127.0.0.1 that keep what they are sent."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trustme
from aiosmtpd.controller import Controller

from streaming.local.broker.configuration import free_port


class QuietHandler(BaseHTTPRequestHandler):
    """Answers requests, and logs none."""

    def answer(self, code: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass


@dataclass(frozen=True)
class Posted:
    """A request."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class HttpReceiver:
    """Answers with `answers` in turn, and 200 when there are none left."""

    url: str
    posted: list[Posted] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """The alerts of every webhook that was answered with 200."""
        return [alert for posted in self.posted for alert in posted.body["alerts"]]


@contextmanager
def http_receiver(port: int = 0) -> Iterator[HttpReceiver]:
    """A server that takes POSTs while the block runs."""
    lock = threading.Lock()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with lock:
                code = receiver.answers.pop(0) if receiver.answers else 200
                if code == 200:
                    posted = Posted(self.path, dict(self.headers), json.loads(body))
                    receiver.posted.append(posted)
            self.answer(code, Location="http://127.0.0.1:1/")

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    receiver = HttpReceiver(f"http://127.0.0.1:{server.server_port}")
    with serving(server):
        yield receiver


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[None]:
    """Answer requests in a thread while the block runs."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Mailbox:
    """Keeps every mail."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.mails: list[Any] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        self.mails.append(envelope)
        return "250 OK"


@contextmanager
def mail_server(authority: trustme.CA | None = None, *, is_tls: bool = False) -> Iterator[Mailbox]:
    """An SMTP server on a free port while the block runs.

    With an authority it has a certificate of it, for STARTTLS or for TLS from the first byte.
    """
    mailbox = Mailbox(free_port())
    context = None
    if authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
    controller = Controller(
        mailbox,
        hostname="127.0.0.1",
        port=mailbox.port,
        ssl_context=context if is_tls else None,
        tls_context=None if is_tls else context,
    )
    controller.start()
    try:
        yield mailbox
    finally:
        controller.stop()
