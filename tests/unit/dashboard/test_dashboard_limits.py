"""The page under load: what computes much holds up nobody, and ends with the page."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
import requests
from starlette.applications import Starlette
from starlette.testclient import TestClient

from streaming.dashboard import queries
from streaming.dashboard.app import create_app
from streaming.errors import TablesUnavailable
from streaming.http.server import serving
from streaming.served import cluster
from streaming.served.cluster import COSTLY_AT_ONCE, MAX_WAITING
from streaming.served.snapshot import ServedSnapshot
from streaming.tables.reader import TableReader
from streaming.views.snapshot import Snapshot
from tests.support.brokers.processes import children, is_there
from tests.support.browser.html import page_of
from tests.support.clients.installed_command import command_of
from tests.support.eventually import Eventually
from tests.support.tables.dashboard_tables import GROUPS, DashboardTables

HOSTILE_QUERIES = (
    "SELECT * FROM range(sleep_ms(600000))",
    "SELECT levenshtein(repeat('a', 10000000), repeat('b', 10000000))",
    "SELECT sum(hash(range)) FROM range(1000000000000000)",
)


def require_room_beside(
    app: Starlette, asked: list[str], taken: int, refusal: str, end: Callable[[], None]
) -> None:
    """Ask eight times for costly pages: `taken` are computed until `end`, and others answered."""
    with serving(app) as address, ThreadPoolExecutor(8) as pool:

        def get(page: str) -> requests.Response:
            return requests.get(f"{address}c/prod/{page}", timeout=120)

        assert get("").status_code == 200
        jobs = [pool.submit(get, asked[number % len(asked)]) for number in range(8)]
        try:
            done = as_completed(jobs)
            refused = [next(done).result() for _ in range(8 - taken)]
            assert [answer.status_code for answer in refused] == [503] * len(refused)
            assert {answer.headers["Retry-After"] for answer in refused} == {"5"}
            assert refusal in refused[0].text
            for page in ("", "health", "transactions", "sql"):
                assert get(page).status_code == 200
            # Meanwhile, each of the others goes on.
            assert sum(job.done() for job in jobs) == len(refused)
        finally:
            end()
        assert sum(job.result().status_code == 200 for job in jobs) == taken


def test_hostile_queries_hold_up_no_page(
    tables: DashboardTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "SHOWN_LIMITS", replace(queries.SHOWN_LIMITS, within_s=600))
    before = children()
    app = create_app({"prod": tables.folder})
    asked = [f"sql?{urlencode({'query': query})}" for query in HOSTILE_QUERIES]
    refusal = "queries: at most 3 are computed at once"
    require_room_beside(app, asked, queries.AT_ONCE, refusal, app.state.sql_processes.close)
    assert children() == before


def test_pages_of_the_past_hold_up_no_other(
    tables: DashboardTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    computed = cluster._computed

    def slowly(reader: TableReader) -> ServedSnapshot:
        assert reader._as_of is None or go_on.wait(60)
        return computed(reader)

    monkeypatch.setattr(cluster, "_computed", slowly)
    app = create_app({"prod": tables.folder})
    asked = [
        f"?{urlencode({'at': tables.after.isoformat()})}",
        f"changes?{urlencode({'since': tables.before.isoformat()})}",
    ]
    refusal = "costly answers: at most 2 are computed at once"
    require_room_beside(app, asked, COSTLY_AT_ONCE + MAX_WAITING, refusal, go_on.set)
    app.state.sql_processes.close()


def test_pages_that_wait_for_a_snapshot_hold_up_no_files_and_errors(
    tables: DashboardTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, waiting = threading.Event(), threading.Semaphore(0)

    def snapshot(*_arguments: object, **_options: object) -> None:
        waiting.release()
        go_on.wait(60)
        raise TablesUnavailable("the store is away")

    monkeypatch.setattr(cluster.Cluster, "snapshot", snapshot)
    app = create_app({"prod": tables.folder})
    with serving(app) as address, ThreadPoolExecutor(40) as pool:
        jobs = [
            pool.submit(requests.get, f"{address}c/prod/health", timeout=120) for _ in range(40)
        ]
        for _ in jobs:
            assert waiting.acquire(timeout=60)
        for path, status_code in (("static/page.css", 200), ("api/v1/nope", 404), ("nope", 404)):
            assert requests.get(f"{address}{path}", timeout=60).status_code == status_code
        go_on.set()
        assert {job.result().status_code for job in jobs} == {400}


def test_sql_of_the_past_computes_nothing_here(
    client: TestClient, tables: DashboardTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Snapshot, "lags", property(lambda _: pytest.fail("computed here")))
    asked = {"at": tables.before.isoformat(), "query": "SELECT count(*) FROM group_status"}
    assert f'<td class="number">{GROUPS + 2}</td>' in page_of(client, "sql", **asked)


def is_answering(pid: int) -> bool:
    """Whether the kernel has been told to end it with its starter, as for each question."""
    flags = Path(f"/proc/{pid}/fdinfo/0").read_text().splitlines()[1]
    return bool(int(flags.split()[1], 8) & os.O_ASYNC)


@pytest.mark.parametrize(
    ("number", "query"),
    [
        (signal.SIGINT, HOSTILE_QUERIES[0]),
        *(pytest.param(signal.SIGKILL, query, marks=pytest.mark.long) for query in HOSTILE_QUERIES),
    ],
)
def test_queries_end_with_the_server(
    tables: DashboardTables, eventually: Eventually, number: signal.Signals, query: str
) -> None:
    """A terminal signals all processes of its group on Ctrl-C; SIGKILL is for the server alone."""
    command = command_of("dashboard", "--tables", tables.folder, "--port", "0", "--no-browser")
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as page:
        try:
            assert page.stderr is not None
            address = urlsplit(page.stderr.readline().split()[-1])
            with closing(HTTPConnection(address.netloc, timeout=60)) as client:
                client.request("GET", f"/c/tables/sql?{urlencode({'query': query})}")
                answering = eventually(
                    lambda: [pid for pid in children(page.pid) if is_answering(pid)]
                )
                if number is signal.SIGKILL:
                    page.kill()
                else:
                    os.killpg(page.pid, number)
                    assert (page.wait(60), page.stderr.read()) == (0, "")
        finally:
            page.kill()
    eventually(lambda: not [pid for pid in answering if is_there(pid)])
