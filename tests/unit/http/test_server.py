"""A server that ends, and takes neither large bodies nor slow requests."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, suppress
from datetime import timedelta
from unittest.mock import Mock

import anyio
import pytest
import requests
from prometheus_client import Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from streaming.http import server
from streaming.http.server import serving
from streaming.run.monitoring import endpoints
from streaming.run.monitoring.run_monitor import HighWatermarks, RunMonitor
from tests.support.eventually import wait_until

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = Response(bytes(8_000_000))
app = PlainTextResponse("answer")


def answering(view: Callable[[Request], Response]) -> Starlette:
    """An application that answers every address by a view, in a thread."""
    return Starlette(routes=[Route("/{path:path}", view, methods=["GET", "POST"])])


def address_of(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
    return host, int(port)


def connected(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=60)


def all_of(client: socket.socket) -> bytes:
    """Everything that the server sends until it closes the connection."""
    return b"".join(iter(lambda: client.recv(4096), b""))


@pytest.mark.parametrize(
    ("header", "sent"),
    [
        ("Content-Length: 300000000", b""),
        ("Transfer-Encoding: chunked", b"4000\r\n" + bytes(0x4000) + b"\r\n"),
    ],
)
def test_a_large_body_is_refused_before_it_is_read(header: str, sent: bytes) -> None:
    """The client has sent little or nothing of it when it gets the answer."""
    with serving(app) as address, connected(address_of(address)) as client:
        client.sendall(f"POST / HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n".encode() + sent)
        assert all_of(client).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("http://localhost/a%2Fb?c=d", "http://localhost/a/b?c=d"),
        ("HTTP://localhost", "http://localhost/"),
        ("http://evil.example/a", "http://evil.example/a"),
        ("/http://evil.example/a", "http://127.0.0.1/http://evil.example/a"),
    ],
)
def test_a_target_may_be_a_whole_url(target: str, url: str) -> None:
    view = answering(lambda request: PlainTextResponse(str(request.url)))
    with serving(view) as address, connected(address_of(address)) as client:
        headers = "Host: 127.0.0.1\r\nConnection: close\r\n"
        client.sendall(f"GET {target} HTTP/1.1\r\n{headers}\r\n".encode())
        assert all_of(client).endswith(f"\r\n\r\n{url}".encode())


def test_a_stop_cancels_slow_requests_in_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "_SHUTDOWN_S", 0)
    begun, ends = threading.Event(), threading.Event()

    def slow(_request: Request) -> Response:
        begun.set()
        ends.wait(60)
        return PlainTextResponse("answer")

    with serving(answering(slow)) as address, connected(address_of(address)) as client:
        client.sendall(GET)
        assert begun.wait(60)
        threading.Timer(1, ends.set).start()
    (record,) = caplog.records
    assert record.getMessage().startswith("Cancel 1 running task(s)")


SLOW = (
    b"",
    b"GET / HTTP/1.1\r\nX-Slow: ",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n=2",
)


@pytest.mark.parametrize("sent", SLOW)
def test_a_client_with_many_slow_connections_leaves_room_for_others(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(server, "_REQUEST_S", 600.0)
    monkeypatch.setattr(server, "_BODY_S", 600.0)
    monkeypatch.setattr(server, "_CONNECTIONS", 64)
    with serving(app) as address, ExitStack() as stack:
        place = address_of(address)
        clients = []
        for _ in range(300):
            client = stack.enter_context(connected(place))
            clients.append(client)
            with suppress(OSError):
                client.sendall(sent)
        for _ in range(3):
            with connected(place) as other:
                other.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert all_of(other).endswith(b"answer")
        # The one that has waited for the longest time is closed first.
        with suppress(ConnectionResetError):
            assert clients[0].recv(1) == b""
        clients[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            clients[-1].recv(1)


def test_a_request_is_answered_though_many_connect_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy, go_on = threading.Event(), threading.Event()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/busy":
            busy.set()
            # Meanwhile, the loop accepts and reads nothing.
            go_on.wait(60)
        await app(scope, receive, send)

    monkeypatch.setattr(server, "_CONNECTIONS", 256)
    with serving(answer) as address, ExitStack() as stack:
        place = address_of(address)
        first, other = (stack.enter_context(connected(place)) for _ in range(2))
        first.sendall(b"GET /busy HTTP/1.0\r\n\r\n")
        assert busy.wait(60)
        other.sendall(b"GET / HTTP/1.0\r\n\r\n")
        asked = stack.enter_context(connected(place))
        asked.sendall(b"GET / HTTP/1.0\r\n\r\n")
        for _ in range(600):
            stack.enter_context(connected(place))
        go_on.set()
        for client in (first, other, asked):
            assert all_of(client).endswith(b"answer")


def test_headers_have_a_limit() -> None:
    """A query of the SQL page is in the address."""
    with serving(app) as address:
        with connected(address_of(address)) as client:
            client.sendall(b"GET /" + b"x" * 200_000 + b" HTTP/1.0\r\n\r\n")
            assert all_of(client).endswith(b"answer")
        with connected(address_of(address)) as client, suppress(ConnectionError):
            while True:
                client.sendall(b"GET /" + b"x" * 200_000)


def test_a_client_that_does_not_read_its_answer_keeps_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "_CONNECTIONS", 16)
    monkeypatch.setattr(server, "_MORE_IF_BUSY", 16)
    with serving(LARGE) as address, ExitStack() as stack:
        place = address_of(address)
        stuck = stack.enter_context(socket.socket())
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(place)
        stuck.sendall(b"GET / HTTP/1.0\r\n\r\n")
        for _ in range(60):
            stack.enter_context(connected(place))
        with connected(place) as other:
            other.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert len(all_of(other)) > 8_000_000


@pytest.mark.parametrize(
    ("sent", "answer"), list(zip(SLOW, (b"", b"", b"HTTP/1.1 408 "), strict=True))
)
def test_a_request_that_does_not_arrive_has_a_deadline(
    monkeypatch: pytest.MonkeyPatch, sent: bytes, answer: bytes
) -> None:
    monkeypatch.setattr(server, "_REQUEST_S", 60.0 if answer else 0.1)
    monkeypatch.setattr(server, "_BODY_S", 0.1)
    with serving(app) as address, connected(address_of(address)) as client:
        client.sendall(sent)
        received = b""
        with suppress(ConnectionResetError):
            received = all_of(client)
        assert received.startswith(answer)
        assert bool(received) == bool(answer)


def test_requests_wait_until_the_answer_before_them_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clients that send many requests and read no answer hold neither threads nor probes up."""
    asked = list[str]()

    def large(request: Request) -> Response:
        asked.append(request.url.path)
        return LARGE

    monkeypatch.setattr(server, "_THREADS", 4)
    with serving(answering(large)) as address, ExitStack() as stack:
        place = address_of(address)
        for _ in range(8):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(60)
            client.connect(place)
            client.sendall(GET * 300)
        wait_until(lambda: len(asked) == 8)
        with connected(place) as other:
            other.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert len(all_of(other)) > 8_000_000
        assert len(asked) == 9


def test_requests_that_arrive_together_are_answered_in_their_order() -> None:
    async def path(scope: Scope, receive: Receive, send: Send) -> None:
        body = scope["path"].encode() + (await receive())["body"]
        await Response(body)(scope, receive, send)

    sent = (
        b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
        b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n=2"
        b"GET /c HTTP/1.0\r\n\r\n"
    )
    for pieces in ([sent], [sent[:30], sent[30:]], [bytes([byte]) for byte in sent]):
        with serving(path) as address, connected(address_of(address)) as client:
            for piece in pieces:
                client.sendall(piece)
            answers = all_of(client)
        assert re.findall(rb"\r\n\r\n(/[abc](?:=2)?)", answers) == [b"/a", b"/b=2", b"/c"]


def test_a_request_that_no_parser_understands_ends_only_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nor can it fill the log."""
    with serving(app) as address:
        for bad in (b"GET http://[x HTTP/1.1\r\n\r\n", b"\xff\x00 / HTTP/9\r\n\r\n"):
            for sent in (bad, GET + bad):
                with connected(address_of(address)) as client, suppress(ConnectionError):
                    client.sendall(sent)
                    all_of(client)
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
        assert requests.get(address, headers=upgrade, timeout=60).text == "answer"
    assert caplog.messages == []


@pytest.mark.parametrize("requests_sent", [1, 300])
def test_an_answer_that_is_not_read_has_a_deadline(
    monkeypatch: pytest.MonkeyPatch, requests_sent: int
) -> None:
    """Further requests of its client do not move it."""
    left = threading.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        async def parts() -> AsyncIterator[bytes]:
            try:
                while True:
                    await anyio.sleep(0)
                    yield bytes(1_000_000)
            finally:
                left.set()

        await StreamingResponse(parts())(scope, receive, send)

    monkeypatch.setattr(server, "_UNREAD_S", 0.1)
    with serving(endless) as address, connected(address_of(address)) as client:
        client.sendall(GET * requests_sent)
        assert left.wait(60)


@pytest.mark.parametrize(("unread_bytes", "is_read"), [(1_000, True), (999, False)])
def test_a_client_that_reads_slowly_keeps_its_connection(unread_bytes: int, is_read: bool) -> None:
    connection = Mock()
    connection.transport.get_write_buffer_size.return_value = 999
    server._Connection._require_reading(connection, unread_bytes)
    assert connection._wait_for_reading.called is is_read
    assert connection.transport.abort.called is not is_read


@pytest.mark.parametrize("unread_bytes", [0, 1])
def test_the_end_of_an_answer_may_be_read_slowly(unread_bytes: int) -> None:
    connection = Mock()
    connection.transport.get_write_buffer_size.return_value = unread_bytes
    server._Connection._require_request(connection)
    assert connection._wait_for_reading.called is bool(unread_bytes)
    assert connection.transport.abort.called is not bool(unread_bytes)


def test_probes_are_answered_before_other_requests() -> None:
    go_on, collecting = threading.Event(), list[bool]()

    class Slow(Collector):
        def collect(self) -> Iterable[Metric]:
            collecting.append(go_on.wait(60))
            return ()

        def describe(self) -> Iterable[Metric]:
            return ()

    ends = HighWatermarks(dict, timedelta(seconds=10))
    monitor = RunMonitor(ends, timedelta(minutes=1))
    monitor.metrics.registry.register(Slow())
    with serving(endpoints.create_app(monitor)) as address, ExitStack() as stack:
        scrapes = [stack.enter_context(connected(address_of(address))) for _ in range(40)]
        for scrape in scrapes:
            scrape.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert requests.get(f"{address}health", timeout=60).json()["healthy"]
        assert not collecting
        go_on.set()
        assert all(all_of(scrape).startswith(b"HTTP/1.1 200 ") for scrape in scrapes)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_server_may_open_more_files_than_a_shell_allows() -> None:
    code = (
        "import resource as r; from streaming.http.server import listening_socket;"
        "hard = r.getrlimit(r.RLIMIT_NOFILE)[1]; r.setrlimit(r.RLIMIT_NOFILE, (256, hard));"
        "listening_socket('127.0.0.1', 0).close(); print(*r.getrlimit(r.RLIMIT_NOFILE))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    soft, hard = map(int, answer.stdout.split())
    assert soft == (4_096 if hard < 0 else min(4_096, hard))
