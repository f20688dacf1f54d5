"""`python -m bench.hostile`: the times of pages beside clients that send hostile requests."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import urlsplit

import click
import numpy as np
import requests

from bench.cluster import Cluster, create
from streaming.dashboard.app import create_app
from streaming.http.server import serving
from streaming.views.output import output_of

_PAGES = ("", "health", "transactions", "group?group=group-77", "topic?topic=topic-7")
_HOSTILE = (
    "SELECT * FROM range(sleep_ms(600000))",
    "SELECT levenshtein(repeat('a', 10000000), repeat('b', 10000000))",
    "SELECT sum(hash(range)) FROM range(1000000000000000)",
)
_AT_ONCE = 8
_SLOW = 125
_BODY_BYTES = 300_000_000


@click.command()
@click.option("--groups", default=1_000, show_default=True)
@click.option("--requests", "asked", default=200, show_default=True, help="Of each situation.")
def bench(groups: int, asked: int) -> None:
    """Ask for pages alone, and beside clients that send hostile requests."""
    with tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as folder:
        tables = str(Path(folder) / "tables")
        create(tables)
        Cluster(groups, 10, groups, datetime.now(timezone.utc)).write(tables)
        app = create_app({"tables": tables})
        with serving(app) as address:
            base = f"{address}c/tables/"
            rows = [_row("alone", base, asked)]
            for situation, repeat in (
                (f"beside {_AT_ONCE} hostile queries", _query),
                (f"beside {_AT_ONCE * _SLOW} slow connections", _connect_slowly),
                (f"beside {_AT_ONCE} bodies of 300 MB", _send_body),
            ):
                stop = threading.Event()
                with ThreadPoolExecutor(_AT_ONCE) as pool:
                    repeated = [pool.submit(repeat, base, n, stop) for n in range(_AT_ONCE)]
                    try:
                        rows.append(_row(situation, base, asked))
                    finally:
                        stop.set()
                for repeating in repeated:
                    repeating.result()
            app.state.sql_processes.close()
    output_of("text").rows(rows, list(rows[0]))


def _query(base: str, number: int, stop: threading.Event) -> None:
    """Repeat a query."""
    query = {"query": _HOSTILE[number % len(_HOSTILE)]}
    while not stop.is_set():
        answer = requests.get(f"{base}sql", params=query, timeout=120)
        # A client that is refused asks again soon.
        stop.wait(0.2 if answer.status_code == 503 else 0)


def _connect_slowly(base: str, _number: int, stop: threading.Event) -> None:
    """Send a byte a second on each of many connections, and replace the closed ones."""
    with ExitStack() as opened:
        connections: list[socket.socket] = []
        while not stop.is_set():
            while len(connections) < _SLOW:
                connections.append(opened.enter_context(_connected(base)))
                _sends(connections[-1], b"GET / HTTP/1.1\r\nX-Slow: ")
            for connection in connections.copy():
                if not _sends(connection, b"x"):
                    connection.close()
                    connections.remove(connection)
            stop.wait(1)


def _send_body(base: str, _number: int, stop: threading.Event) -> None:
    """Send a request with a large body until the server closes the connection, again and again."""
    head = f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {_BODY_BYTES}\r\n\r\n"
    while not stop.is_set():
        with _connected(base) as connection:
            is_open = _sends(connection, head.encode())
            while is_open and not stop.is_set():
                is_open = _sends(connection, bytes(1 << 16))


def _connected(base: str) -> socket.socket:
    address = urlsplit(base)
    return socket.create_connection((address.hostname, address.port or 0), timeout=120)


def _sends(connection: socket.socket, data: bytes) -> bool:
    """Send data; False if the server has closed the connection."""
    try:
        connection.sendall(data)
    except OSError:
        return False
    return True


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
