"""`python -m bench.dashboard`: how long the page takes over tables of a large cluster."""

from __future__ import annotations

import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

import click
from flask.testing import FlaskClient

from bench.lag import Cluster, create
from streaming.dashboard.app import create_app
from streaming.views.output import output_of

_PAGES = {
    "overview": "/c/tables/",
    "search": "/c/tables/?search=group-77",
    "group": "/c/tables/group?group=group-77",
    "charts of a group": "/c/tables/group/chart?group=group-77",
    "topic": "/c/tables/topic?topic=topic-7",
    "transactions": "/c/tables/transactions",
    "sql over group_lag": "/c/tables/sql?query=SELECT+sum(lag)+FROM+group_lag",
    "health": "/c/tables/health",
}


@click.command()
@click.option("--groups", default=10_000, show_default=True)
@click.option("--partitions", default=10, show_default=True, help="Of each group.")
@click.option("--topic-partitions", default=10_000, show_default=True)
@click.option("--runs", default=5, show_default=True)
def bench(groups: int, partitions: int, topic_partitions: int, runs: int) -> None:
    """Measure each page, first after the start and once the tables were looked at."""
    with tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as folder:
        tables = str(Path(folder) / "tables")
        create(tables)
        cluster = Cluster(groups, partitions, topic_partitions, datetime.now(timezone.utc))
        cluster.write(tables)
        client = create_app({"tables": tables}).test_client()
        rows = [{"page": "overview, first", "seconds": _seconds(client, _PAGES["overview"])}]
        for page, address in _PAGES.items():
            fastest = min(_seconds(client, address) for _ in range(runs))
            rows.append({"page": page, "seconds": fastest})
    output_of("text").rows(rows, ["page", "seconds"])


def _seconds(client: FlaskClient, address: str) -> float:
    began = time.perf_counter()
    answer = client.get(address)
    if answer.status_code != 200:
        raise RuntimeError(f"{address} answered {answer.status_code}")
    return round(time.perf_counter() - began, 3)


if __name__ == "__main__":
    bench(prog_name="python -m bench.dashboard")
