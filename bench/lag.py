"""`python -m bench.lag`: lag, a scrape and `alert test` over an hour of a large cluster."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import click

from bench.hour import folder_option, read_hour
from coordinator_state.insight.group_status import StatusRules
from streaming.alerts.facts import Facts
from streaming.alerts.replay import replay, replay_step
from streaming.alerts.rules import AlertRules, load_rules
from streaming.http.server import serving
from streaming.lag.evaluation import Evaluation
from streaming.lag.group_lag import group_lag
from streaming.metrics.collector import TablesCollector
from streaming.metrics.endpoint import create_app
from streaming.metrics.row_family import formatted
from streaming.metrics.scrapes import Scrapes
from streaming.tables.reader import TableReader
from streaming.views.output import output_of

_COLLECT_EVERY_S = 5.0
_SCRAPE_EVERY_S = 15.0
_RULES = """
rules:
  - {name: stopped, status: [STOP, STALL], for: 1m}
  - {name: behind, lag: "> 100000", for: 1m}
  - {name: late, time_lag: "> 5m", by: partition}
  - {name: tables, tables_behind: "> 1m"}
sinks:
  out: {type: stdout}
"""


@click.command()
@folder_option
@click.option("--runs", default=3, show_default=True)
def bench(folder: str | None, runs: int) -> None:
    """Measure what `show lag`, `show status`, `metrics` and `alert test` compute."""
    with read_hour(folder) as tables:
        rows = [
            _measured("group_lag", runs, lambda: group_lag(TableReader(tables)).num_rows),
            _measured("group_status", runs, lambda: _statuses(tables)),
            _measured("a round of alert run", runs, lambda: _alert_round(tables)),
            _measured("a collection of metrics", runs, lambda: _collection(tables)),
            *_scrapes(tables, runs),
            _measured("alert test of an hour", 1, lambda: _alert_test(tables)),
        ]
    output_of("text").rows(rows, tuple(rows[0]))


def _statuses(tables: str) -> int:
    return int(Evaluation.read(TableReader(tables)).statuses.num_rows)


def _alert_round(tables: str) -> int:
    """The findings of the rules without SQL."""
    reader = TableReader(tables)
    facts = Facts(reader, reader.moment, StatusRules())
    return sum(len(facts.findings(rule)) for rule in _rules().rules)


def _collection(tables: str) -> int:
    """The lines of one collection."""
    metrics = TablesCollector(tables).collect()
    return formatted(metrics, is_openmetrics=False).count(b"\n")


def _scrapes(tables: str, runs: int) -> Iterator[dict[str, object]]:
    """The first scrape over HTTP, and the slowest of the further ones, 15 s apart."""
    scrapes = Scrapes(TablesCollector(tables).collect, _COLLECT_EVERY_S)
    with scrapes.ahead(), serving(create_app(scrapes)) as address:

        def scrape() -> int:
            with closing(HTTPConnection(urlsplit(address).netloc)) as connection:
                connection.request("GET", "/metrics")
                return connection.getresponse().read().count(b"\n")

        yield _measured("the first scrape of /metrics", 1, scrape)
        further = []
        for _ in range(runs):
            time.sleep(_SCRAPE_EVERY_S)
            further.append(_measured("a further scrape of /metrics", 1, scrape))
        yield max(further, key=lambda row: float(str(row["fastest_s"])))


def _alert_test(tables: str) -> int:
    """The changes of alerts, evaluated every minute."""
    rules, last = _rules(), TableReader(tables)
    since = last.moment - timedelta(hours=1)
    return len(list(replay(rules, last, since=since, step=replay_step(rules, last.moment - since))))


def _rules() -> AlertRules:
    with tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as folder:
        file = Path(folder, "alerts.yaml")
        file.write_text(_RULES)
        return load_rules(str(file))


def _measured(name: str, runs: int, call: Callable[[], int]) -> dict[str, object]:
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        row_count = call()
        seconds.append(time.perf_counter() - began)
    return {"measured": name, "rows": row_count, "fastest_s": round(min(seconds), 3), "runs": runs}


if __name__ == "__main__":
    bench(prog_name="python -m bench.lag")
