"""`python -m bench.dashboard`: how long the page takes over an hour of a large cluster.

`--groups 100000` writes tables of 100,000 groups and 1,000,000 partitions, of three minutes.
"""

from __future__ import annotations

import time

import click
from starlette.testclient import TestClient

from bench.hour import Shape, folder_option, read_hour
from streaming.dashboard.app import create_app
from streaming.views.output import output_of
from tests.support.browser.html import client_of

_PAGES = {
    "overview": "/c/tables/",
    "search": "/c/tables/?search=group-77",
    "groups of a topic": "/c/tables/?topic=topic-7",
    "group": "/c/tables/group?group=group-77",
    "members of a group": "/c/tables/group?group=group-77&tab=members",
    "events of a group": "/c/tables/group?group=group-77&tab=events",
    "raw records of a group": "/c/tables/group/records?group=group-77",
    "story of a group": "/c/tables/group/why?group=group-77",
    "charts of a group": "/c/tables/group/chart?group=group-77",
    "statuses of a group": "/c/tables/group/statuses?group=group-77",
    "story of a group that stopped": "/c/tables/group/why?group=group-57",
    "charts of a group that stopped": "/c/tables/group/chart?group=group-57",
    "statuses of a group that stopped": "/c/tables/group/statuses?group=group-57",
    "topics": "/c/tables/topics",
    "topic": "/c/tables/topic?topic=topic-7",
    "transactions": "/c/tables/transactions",
    "sql over group_lag": "/c/tables/sql?query=SELECT+sum(lag)+FROM+group_lag",
    "health": "/c/tables/health",
}
_FIRST = {
    "overview, first": _PAGES["overview"],
    "sparklines of the overview, first": "/c/tables/overview/sparklines",
}
_PARTITIONS = 10
_MICRO_BATCHES = 180


@click.command()
@folder_option
@click.option(
    "--groups",
    type=click.IntRange(min=10),
    help="Write new tables with this number of groups, for three minutes.",
)
@click.option("--runs", default=3, show_default=True)
def bench(folder: str | None, groups: int | None, runs: int) -> None:
    """Measure each page, first after the start and then with the overview in the cache."""
    if folder is not None and groups is not None:
        raise click.UsageError("--groups is for new tables: leave out --folder")
    shape = Shape()
    if groups is not None:
        shape = Shape(
            groups=groups,
            partitions_per_group=_PARTITIONS,
            topic_partitions=groups,
            micro_batches=_MICRO_BATCHES,
        )
    with read_hour(folder, shape) as tables:
        client = client_of(create_app({"tables": tables}))
        rows = [
            {"page": page, "seconds": _seconds(client, address)} for page, address in _FIRST.items()
        ]
        for page, address in _PAGES.items():
            fastest = min(_seconds(client, address) for _ in range(runs))
            rows.append({"page": page, "seconds": fastest})
    output_of("text").rows(rows, ["page", "seconds"])


def _seconds(client: TestClient, address: str) -> float:
    began = time.perf_counter()
    answer = client.get(address)
    if answer.status_code != 200:
        raise RuntimeError(f"{address} answered {answer.status_code}")
    return round(time.perf_counter() - began, 3)


if __name__ == "__main__":
    bench(prog_name="python -m bench.dashboard")
