"""/metrics over real HTTP: one collection for all scrapes; clients that leave or do not read."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from streaming.http.server import serving
from streaming.metrics import endpoint as endpoint_module
from streaming.metrics.endpoint import create_app
from streaming.metrics.scrapes import STALE_S, Scrapes
from tests.support.eventually import Eventually

PATIENCE_S = 60
AT_ONCE = {"X-Prometheus-Scrape-Timeout-Seconds": "0.001"}
"""A scrape waits no longer than Prometheus does, which says so in a header."""


@dataclass
class Gate:
    """Collects once for each time that it is opened; counts, and notes who collects at once."""

    inner: Callable[[], object]
    is_open: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    begun: int = 0
    finished: int = 0

    def __call__(self) -> Iterator[Metric]:
        self.begun += 1
        assert self.begun == self.finished + 1, "two collections at once"
        assert self.is_open.acquire(timeout=PATIENCE_S)
        yield from self.inner()  # type: ignore[misc]
        self.finished += 1

    def open(self, times: int = 1) -> None:
        self.is_open.release(times)


@dataclass
class Clock:
    now: float = 1_000.0
    asked: int = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.now


def collected() -> Iterator[Metric]:
    family = GaugeMetricFamily("of_a_group", "text", labels=["group"])
    family.add_metric(['g"\n\\'], 7)
    yield family


@dataclass
class Endpoint:
    """The address of /metrics, and what is behind it."""

    port: int
    gate: Gate
    clock: Clock

    def scrape(self, **headers: str) -> tuple[int, bytes, Message]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request("GET", "/metrics", headers=named)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        finally:
            connection.close()

    def request(self) -> socket.socket:
        """A scrape whose answer nobody has read yet."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        return client


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Endpoint]]:
    # A busy machine may take longer than Prometheus waits.
    monkeypatch.setattr(endpoint_module, "_LONGEST_WAIT_S", PATIENCE_S)
    with ExitStack() as running:

        def serve(collect: Callable[[], object] = collected, interval_s: float = 5.0) -> Endpoint:
            gate, clock = Gate(collect), Clock()
            app = create_app(Scrapes(gate, interval_s, clock))
            address = running.enter_context(serving(app))
            running.callback(gate.open, 100)
            return Endpoint(urlsplit(address).port or 0, gate, clock)

        yield serve


def test_many_scrapes_at_once_are_one_collection(
    serve: Callable[..., Endpoint], eventually: Eventually
) -> None:
    endpoint = serve()
    with ThreadPoolExecutor(60) as pool:
        scrapes = [pool.submit(endpoint.scrape) for _ in range(60)]
        # Four wait for it; the others are told at once that there is nothing yet.
        eventually(lambda: sum(scrape.done() for scrape in scrapes) == 56)
        assert {scrape.result()[0] for scrape in scrapes if scrape.done()} == {503}
        threads = own_threads()
        endpoint.gate.open()
        answered = [scrape.result() for scrape in scrapes]
    assert [status for status, _, _ in answered].count(200) == 4
    assert endpoint.gate.begun == 1
    assert all(headers["Retry-After"] for status, _, headers in answered if status == 503)
    # In the same interval there is no other collection, and nobody waits.
    with ThreadPoolExecutor(30) as pool:
        again = list(pool.map(lambda _: endpoint.scrape()[:2], range(300)))
    assert set(again) == {(200, text) for status, text, _ in answered if status == 200}
    assert endpoint.gate.begun == 1
    assert len(own_threads()) < len(threads)


def own_threads() -> set[threading.Thread]:
    """Those that serve and collect."""
    names = ("page", "collection")
    return {thread for thread in threading.enumerate() if thread.name.startswith(names)}


@pytest.mark.parametrize(("took_s", "kept_s"), [(0, 5), (30, 30)])
def test_an_answer_is_kept_for_the_interval_or_as_long_as_it_took(
    serve: Callable[..., Endpoint], took_s: float, kept_s: float
) -> None:
    def slowly() -> Iterator[Metric]:
        endpoint.clock.now += took_s
        yield from collected()

    endpoint = serve(slowly, interval_s=5.0)
    endpoint.gate.open(2)
    for after_s, collections in ((0.0, 1), (kept_s - 0.1, 1), (0.2, 2)):
        endpoint.clock.now += after_s
        assert endpoint.scrape()[0] == 200
        assert endpoint.gate.begun == collections


def test_while_a_collection_takes_its_time_the_one_before_is_the_answer(
    serve: Callable[..., Endpoint],
) -> None:
    endpoint = serve()
    assert endpoint.scrape(**AT_ONCE)[0] == 503
    endpoint.gate.open()
    before = endpoint.scrape()
    assert before[0] == 200
    endpoint.clock.now += 60
    assert endpoint.scrape(**AT_ONCE)[:2] == before[:2]
    endpoint.clock.now += STALE_S
    assert endpoint.scrape(**AT_ONCE)[0] == 503
    assert endpoint.gate.begun == 2


def test_a_collection_is_made_ahead_of_the_next_scrape(eventually: Eventually) -> None:
    gate, clock = Gate(collected), Clock()
    scrapes = Scrapes(gate, 5.0, clock)
    gate.open()
    with scrapes.ahead():
        first = scrapes.latest(PATIENCE_S)
        assert first is not None
        first.text(is_openmetrics=False, is_gzip=True)
        clock.now += 5.05
        eventually(lambda: gate.begun == 2)
        # Nobody waits while it is made.
        assert scrapes.latest(0) is first
        gate.open()
        eventually(lambda: scrapes.latest(0) is not first)
        second = scrapes.latest(0)
        assert second is not None
        assert set(second._texts) >= {(False, True)}


def test_without_scrapes_nothing_is_collected(eventually: Eventually) -> None:
    gate, clock = Gate(collected), Clock()
    scrapes = Scrapes(gate, 5.0, clock)
    gate.open(3)
    with scrapes.ahead():
        assert scrapes.latest(PATIENCE_S) is not None
        clock.now += 140
        eventually(lambda: gate.finished == 2)
        clock.now += 20
        asked = clock.asked
        eventually(lambda: clock.asked > asked + 3)
        assert gate.begun == 2
        # The next scrape does not get the old one.
        latest = scrapes.latest(PATIENCE_S)
        assert latest is not None
        assert gate.finished == 3


@pytest.mark.parametrize(
    ("header", "value"),
    [
        *(
            ("X-Prometheus-Scrape-Timeout-Seconds", timeout)
            for timeout in ("", "soon", "nan", "inf", "1e999", "9" * 400)
        ),
        ("Accept", "text/plain; version=x"),
        ("Accept", "application/openmetrics-text; version=9"),
    ],
)
def test_an_odd_header_is_ignored(serve: Callable[..., Endpoint], header: str, value: str) -> None:
    endpoint = serve()
    endpoint.gate.open()
    assert endpoint.scrape(**{header: value})[0] == 200


def test_scrapes_that_were_given_up_leave_nothing_behind(
    serve: Callable[..., Endpoint], eventually: Eventually
) -> None:
    endpoint = serve()
    threads = own_threads()
    for _ in range(300):
        endpoint.request().close()
    eventually(lambda: endpoint.gate.begun == 1)
    # One thread collects; those of the server are as many as before.
    assert {thread.name for thread in own_threads() - threads} == {"collection"}
    endpoint.gate.open()
    status, text, _ = endpoint.scrape()
    assert (status, b"of_a_group" in text) == (200, True)
    eventually(lambda: own_threads() == threads)
    assert endpoint.gate.begun == 1


def test_both_formats_plain_and_compressed(serve: Callable[..., Endpoint]) -> None:
    endpoint = serve()
    endpoint.gate.open()
    # As Prometheus 3 asks.
    openmetrics = (
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;q=0.4"
    )
    for accept, kind, parse in (
        ("*/*", "text/plain; version=0.0.4", text_string_to_metric_families),
        (openmetrics, "application/openmetrics-text; version=1.0.0", openmetrics_families),
    ):
        _, text, headers = endpoint.scrape(Accept=accept)
        assert headers["Content-Type"].startswith(kind)
        (family,) = parse(text.decode())
        assert [(s.labels, s.value) for s in family.samples] == [({"group": 'g"\n\\'}, 7.0)]
        _, packed, headers = endpoint.scrape(Accept=accept, Accept_Encoding="gzip, deflate")
        assert headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(packed) == text
    assert endpoint.gate.begun == 1


def test_a_collection_that_fails_is_tried_again(
    serve: Callable[..., Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[object] = []
    monkeypatch.setattr(threading, "excepthook", said.append)
    faults = [OSError("the store is away")]

    def failing() -> Iterator[Metric]:
        endpoint.gate.finished += len(faults)
        if faults:
            raise faults.pop()
        yield from collected()

    endpoint = serve(failing)
    endpoint.gate.open(2)
    assert endpoint.scrape()[0] == 503
    assert endpoint.scrape()[0] == 200
    assert len(said) == 1
