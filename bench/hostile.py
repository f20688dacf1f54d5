"""`python -m bench.hostile`: how long the page takes while others run hostile SQL on it."""

from __future__ import annotations

import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import click
import numpy as np
import requests

from bench.cluster import Cluster, create
from streaming.dashboard.app import create_app
from streaming.dashboard.queries import PROCESSES
from streaming.http.server import serving
from streaming.views.output import output_of

_PAGES = ("", "health", "transactions", "group?group=group-77", "topic?topic=topic-7")
_HOSTILE = (
    "SELECT * FROM range(sleep_ms(600000))",
    "SELECT levenshtein(repeat('a', 10000000), repeat('b', 10000000))",
    "SELECT sum(hash(range)) FROM range(1000000000000000)",
)
_AT_ONCE = 8


@click.command()
@click.option("--groups", default=1_000, show_default=True)
@click.option("--requests", "asked", default=200, show_default=True, help="Of each situation.")
def bench(groups: int, asked: int) -> None:
    """Ask for pages alone, and beside eight clients that repeat hostile queries."""
    with tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as folder:
        tables = str(Path(folder) / "tables")
        create(tables)
        Cluster(groups, 10, groups, datetime.now(timezone.utc)).write(tables)
        app = create_app({"tables": tables})
        stop = threading.Event()
        with serving(app) as address, ThreadPoolExecutor(_AT_ONCE) as pool:
            base = f"{address}c/tables/"
            rows = [_row("alone", base, asked)]
            for number in range(_AT_ONCE):
                pool.submit(_repeat, base, _HOSTILE[number % len(_HOSTILE)], stop)
            rows.append(_row("beside eight hostile queries", base, asked))
            stop.set()
            app.extensions[PROCESSES].close()
    output_of("text").rows(rows, list(rows[0]))


def _repeat(base: str, query: str, stop: threading.Event) -> None:
    while not stop.is_set():
        answer = requests.get(f"{base}sql", params={"query": query}, timeout=120)
        # A client that is refused asks again soon.
        stop.wait(0.2 if answer.status_code == 503 else 0)


def _row(situation: str, base: str, asked: int) -> dict[str, str]:
    times_ms = []
    for number in range(asked):
        began = time.perf_counter()
        requests.get(base + _PAGES[number % len(_PAGES)], timeout=120).raise_for_status()
        times_ms.append(1000 * (time.perf_counter() - began))
    return {
        "situation": situation,
        "requests": str(asked),
        "p50": f"{np.percentile(times_ms, 50):.0f} ms",
        "p95": f"{np.percentile(times_ms, 95):.0f} ms",
        "most": f"{max(times_ms):.0f} ms",
    }


if __name__ == "__main__":
    bench()
