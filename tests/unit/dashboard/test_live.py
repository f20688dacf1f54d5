"""The stream of changes: an event after each, a heartbeat, a limited number, and an end."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import requests
from deltalake import DeltaTable

from streaming.dashboard import health
from streaming.dashboard.app import create_app, serving_page
from streaming.http import streams
from streaming.served.watch import Watch
from streaming.tables import delta
from tests.support.browser.html import client_of, page_client
from tests.support.eventually import Eventually
from tests.support.tables.dashboard_tables import DashboardTables, create_dashboard_tables, set_back


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> DashboardTables:
    """Tables that these tests change."""
    return create_dashboard_tables(tmp_path_factory.mktemp("live") / "tables")


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def open_stream(address: str, opened: ExitStack) -> HTTPResponse:
    """An open stream of the cluster `prod`, past its headers."""
    connection = HTTPConnection(str(urlsplit(address).netloc), timeout=30)
    opened.callback(connection.close)
    connection.request("GET", "/c/prod/live")
    return opened.enter_context(connection.getresponse())


def next_event(stream: HTTPResponse) -> list[str]:
    """The lines of the next event or comment."""
    lines: list[str] = []
    while line := stream.readline().decode().strip():
        lines.append(line)
    return lines


def time_of(event: list[str]) -> float:
    """The time of a change, in seconds since the epoch."""
    return int(event[-1].removeprefix("data: ")) / 1000


def test_a_change_is_an_event(tables: DashboardTables, opened: ExitStack) -> None:
    with serving_page({"prod": tables.folder}, refresh_s=0.1) as address:
        stream = open_stream(address, opened)
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        assert stream.headers["X-Accel-Buffering"] == "no"
        assert stream.headers["Cache-Control"] == "no-store, no-transform"
        retry, data = first = next_event(stream)
        assert retry == "retry: 2000"
        assert data.startswith("data: ")
        before = time.time()
        set_back(tables.folder, committed=90)
        event = next_event(stream)
        assert time_of(first) < before < time_of(event) <= time.time()
        # A new stream begins with the same time.
        assert time_of(next_event(open_stream(address, opened))) >= time_of(event)


def test_a_quiet_stream_has_a_heartbeat_and_an_end(
    tables: DashboardTables, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_LOOKS_EVERY_S", 0.02)
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.1)
    with serving_page({"prod": tables.folder}) as address:
        stream = open_stream(address, opened)
        next_event(stream)
        assert [next_event(stream), next_event(stream)] == [[":"], [":"]]
        monkeypatch.setattr(streams, "LASTS_S", 0.0)
        short = open_stream(address, opened)
        next_event(short)
        assert short.read() == b""


def test_a_hundred_streams_leave_the_page_to_others(
    tables: DashboardTables, opened: ExitStack, eventually: Eventually
) -> None:
    with serving_page({"prod": tables.folder}) as address:
        streams = [open_stream(address, opened) for _ in range(100)]
        refused = [stream for stream in streams if stream.status == 503]
        assert len(refused) == 100 - health.MOST_STREAMS
        assert {stream.headers["Retry-After"] for stream in refused} == {"5"}
        assert {stream.status for stream in streams} == {200, 503}
        assert requests.get(f"{address}c/prod/", timeout=30).status_code == 200
        # A client that leaves makes room.
        opened.close()
        with ExitStack() as others:
            eventually(lambda: open_stream(address, others).status == 200)


def test_the_head_of_a_stream_ends_at_once(tables: DashboardTables) -> None:
    with serving_page({"prod": tables.folder}) as address:
        for _ in range(health.MOST_STREAMS + 1):
            assert requests.head(f"{address}c/prod/live", timeout=30).status_code == 200


def test_open_streams_do_not_hold_up_the_end(tables: DashboardTables, opened: ExitStack) -> None:
    with serving_page({"prod": tables.folder}) as address:
        streams = [open_stream(address, opened) for _ in range(10)]
    for stream in streams:
        assert stream.read().startswith(b"retry: ")


def test_the_past_has_no_stream(tables: DashboardTables) -> None:
    client = page_client(prod=tables.folder)
    for address in (f"/c/prod/live?{urlencode({'at': tables.after.isoformat()})}", "/c/nope/live"):
        assert client.get(address).status_code == 404


def test_many_ask_and_one_looks(tmp_path: Path) -> None:
    watch = Watch(f"{tmp_path}/tables")
    missing = watch.changed_at(0)
    tables = create_dashboard_tables(tmp_path / "tables")
    first = watch.changed_at(0)
    assert first > missing
    set_back(tables.folder, committed=80)
    changed = watch.changed_at(3_600)
    assert changed > first
    set_back(tables.folder, committed=70)
    assert watch.changed_at(3_600) == changed


def test_a_change_during_a_read_makes_the_page_old(
    tables: DashboardTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that was opened before a change and answered after it does not have the change."""
    watch, opened = Watch(tables.folder), delta.open_version
    watch.changed_at(0)
    changed: list[float] = []

    def opened_slowly(*arguments: Any) -> DeltaTable:
        table = opened(*arguments)
        if not changed:
            changed.append(time.time())
            set_back(tables.folder, committed=60)
        return table

    monkeypatch.setattr(delta, "open_version", opened_slowly)
    app = create_app({"prod": tables.folder})
    page = client_of(app).get("/c/prod/").text
    read_at = re.findall(r'data-read-at="(\d+)"', page)[0]
    assert int(read_at) / 1000 < changed[0] < watch.changed_at(0).timestamp()
