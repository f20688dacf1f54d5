"""`python -m bench.lag`: lag, a scrape and `alert test` over an hour of a large cluster."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import click

from bench.hour import folder_option, read_hour
from streaming.alerts.replay import replay, replay_step
from streaming.alerts.rules_file import load_rules
from streaming.lag.group_lag import group_lag
from streaming.lag.group_status import group_statuses
from streaming.metrics.collector import TablesCollector
from streaming.metrics.exposition import formatted
from streaming.tables.reader import TableReader
from streaming.views.output import output_of

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
            _measured("group_status", runs, lambda: group_statuses(TableReader(tables)).num_rows),
            _measured("a scrape of /metrics", runs, lambda: _scrape(tables)),
            _measured("alert test of an hour", 1, lambda: _alert_test(tables)),
        ]
    output_of("text").rows(rows, tuple(rows[0]))


def _scrape(tables: str) -> int:
    """The lines of one scrape."""
    metrics = TablesCollector(tables).collect()
    return formatted(metrics, is_openmetrics=False).count(b"\n")


def _alert_test(tables: str) -> int:
    """The changes of alerts, evaluated every minute."""
    with tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as folder:
        file = Path(folder, "alerts.yaml")
        file.write_text(_RULES)
        rules = load_rules(str(file))
    last = TableReader(tables)
    since = last.moment - timedelta(hours=1)
    return len(list(replay(rules, last, since=since, step=replay_step(rules, last.moment - since))))


def _measured(name: str, runs: int, call: Callable[[], int]) -> dict[str, object]:
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        found = call()
        seconds.append(time.perf_counter() - began)
    return {"measured": name, "rows": found, "fastest_s": round(min(seconds), 3), "runs": runs}


if __name__ == "__main__":
    bench(prog_name="python -m bench.lag")
