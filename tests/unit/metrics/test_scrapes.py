"""/metrics: one collection for all scrapes, and what the answer to each of them is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from streaming.metrics.endpoint import create_app
from streaming.metrics.scrapes import STALE_S, Scrapes
from tests.support.browser.html import client_of
from tests.support.eventually import Eventually

PATIENCE_S = 60
PLAIN = ("text/plain; version=0.0.4", text_string_to_metric_families)
OPENMETRICS = ("application/openmetrics-text; version=1.0.0", openmetrics_families)


def collected() -> Iterator[Metric]:
    family = GaugeMetricFamily("of_a_group", "text", labels=["group"])
    family.add_metric(['g"\n\\'], 7)
    yield family


@dataclass
class Gate:
    """Collects once for each time that it is opened; counts, and notes who collects at once."""

    collect: Callable[[], Iterator[Metric]] = collected
    is_open: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    begun: int = 0
    finished: int = 0

    def __call__(self) -> Iterator[Metric]:
        self.begun += 1
        assert self.begun == self.finished + 1, "two collections at once"
        assert self.is_open.acquire(timeout=PATIENCE_S)
        try:
            yield from self.collect()
        finally:
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


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open(100)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def scrapes(gate: Gate, clock: Clock) -> Scrapes:
    """Scrapes of collections that begin at least 5 s apart."""
    return Scrapes(gate, 5.0, clock)


def test_many_scrapes_are_one_collection(
    gate: Gate, scrapes: Scrapes, eventually: Eventually
) -> None:
    threads = set(threading.enumerate())
    # Those that were given up leave nothing behind but the collection.
    assert {scrapes.latest(0) for _ in range(300)} == {None}
    assert [thread.name for thread in set(threading.enumerate()) - threads] == ["collection"]
    with ThreadPoolExecutor(60) as pool:
        waiting = [pool.submit(scrapes.latest, PATIENCE_S) for _ in range(60)]
        # Four wait for it; the others are told at once that there is nothing yet.
        eventually(lambda: sum(scrape.done() for scrape in waiting) == 56)
        assert {scrape.result() for scrape in waiting if scrape.done()} == {None}
        gate.open()
        answers = [scrape.result() for scrape in waiting]
    assert answers.count(None) == 56
    # In the same interval there is no other collection, and nobody waits.
    assert {scrapes.latest(0) for _ in range(300)} == set(answers) - {None}
    assert gate.begun == 1
    eventually(lambda: set(threading.enumerate()) <= threads)


@pytest.mark.parametrize(("took_s", "kept_s"), [(0, 5), (30, 30)])
def test_an_answer_is_kept_for_the_interval_or_as_long_as_it_took(
    gate: Gate, clock: Clock, scrapes: Scrapes, took_s: float, kept_s: float
) -> None:
    def slowly() -> Iterator[Metric]:
        clock.now += took_s
        yield from collected()

    gate.collect = slowly
    gate.open(2)
    for after_s, collections in ((0.0, 1), (kept_s - 0.1, 1), (0.2, 2)):
        clock.now += after_s
        assert scrapes.latest(PATIENCE_S) is not None
        assert gate.begun == collections


def test_while_a_collection_takes_its_time_the_one_before_is_the_answer(
    gate: Gate, clock: Clock, scrapes: Scrapes
) -> None:
    assert scrapes.latest(0) is None
    gate.open()
    before = scrapes.latest(PATIENCE_S)
    assert before is not None
    clock.now += 60
    assert scrapes.latest(0) is before
    clock.now += STALE_S
    assert scrapes.latest(0) is None
    assert gate.begun == 2


def test_a_collection_is_made_ahead_of_the_next_scrape(
    gate: Gate, clock: Clock, scrapes: Scrapes, eventually: Eventually
) -> None:
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


def test_without_scrapes_nothing_is_collected(
    gate: Gate, clock: Clock, scrapes: Scrapes, eventually: Eventually
) -> None:
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
        assert scrapes.latest(PATIENCE_S) is not None
        assert gate.finished == 3


def test_a_collection_that_fails_is_tried_again(
    gate: Gate, scrapes: Scrapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[object] = []
    monkeypatch.setattr(threading, "excepthook", said.append)
    faults = [OSError("the store is away")]

    def failing() -> Iterator[Metric]:
        if faults:
            raise faults.pop()
        yield from collected()

    gate.collect = failing
    gate.open(2)
    assert scrapes.latest(PATIENCE_S) is None
    assert scrapes.latest(PATIENCE_S) is not None
    assert len(said) == 1


# --- the endpoint


@pytest.mark.parametrize(
    ("timeout", "wait_s"),
    [
        *(("5", 4.5), ("60", 9.0), ("-1", 0.0)),
        *((odd, 9.0) for odd in ("", "soon", "nan", "inf", "1e999", "9" * 400)),
    ],
)
def test_a_scrape_waits_no_longer_than_prometheus(timeout: str, wait_s: float) -> None:
    waits: list[float] = []
    scrapes: Any = SimpleNamespace(latest=waits.append)
    headers = {"X-Prometheus-Scrape-Timeout-Seconds": timeout}
    answer = client_of(create_app(scrapes)).get("/metrics", headers=headers)
    assert waits == [wait_s]
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")


@pytest.mark.parametrize(
    ("accept", "answered"),
    [
        *(("*/*", PLAIN), ("text/plain; version=x", PLAIN)),
        # As Prometheus 3 asks.
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;q=0.4",
            OPENMETRICS,
        ),
        ("application/openmetrics-text; version=9", OPENMETRICS),
    ],
)
def test_both_formats_plain_and_compressed(
    gate: Gate, scrapes: Scrapes, accept: str, answered: tuple[str, Callable[[str], Any]]
) -> None:
    content_type, parse = answered
    gate.open()
    client = client_of(create_app(scrapes))
    plain = client.get("/metrics", headers={"Accept": accept})
    packed = client.get("/metrics", headers={"Accept": accept, "Accept-Encoding": "gzip, deflate"})
    for answer in (plain, packed):
        assert answer.headers["Content-Type"].startswith(content_type)
        (family,) = parse(answer.text)
        assert [(s.labels, s.value) for s in family.samples] == [({"group": 'g"\n\\'}, 7.0)]
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gate.begun == 1
