"""`python -m bench.startup`: from the start of `run` to its first micro-batch, phase by phase.

The log has a few commits, as at a first try, or as many as `--keys` says. `run --available-now`
makes tables of them, and is started again after further commits. The phases come from the times of
its log lines. In the end each committed offset is compared with the log.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import click

from bench.findings import findings_option, write_findings
from bench.freshness import Traffic
from bench.live import committed_offsets
from bench.processes import run_command, run_environment
from coordinator_state.model.plain_commits import PlainCommits
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.run.stderr import write_note
from streaming.views.output import output_of

_FIRST, _RESTART = "first start", "restart"
_LAST_LINES = {"cluster": "cluster ", "spark": "starting the query", "micro_batch": "micro-batch "}
"""The beginning of the log line with which each phase ends."""
_COMMITS_PER_S = 50
_COMMITTING_S = 0.5
_MOST_S = 300.0
_EXIT_DIFFERENT = 1

Phases = dict[str, float]


@click.command()
@click.option("--keys", default=20, show_default=True, help="Committed once before, ten a group.")
@click.option("--runs", default=3, show_default=True, help="Starts of each kind.")
@findings_option
def startup(keys: int, runs: int, findings: Path | None) -> None:
    """Measure a first start, and a restart on its tables.

    The figures are medians in seconds: until Kafka has described the topic (cluster), from there
    until Spark and the tables are ready (spark), until the first micro-batch begins (query), until
    it is finished (micro_batch), and from there to the end of the process (exit).
    """
    starts_by_kind: dict[str, list[Phases]] = {_FIRST: [], _RESTART: []}
    different = 0
    with (
        tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as name,
        EmbeddedBroker(folder=Path(name) / "broker") as broker,
    ):
        broker.create_offsets_topic()
        commits = PlainCommits(keys, keys, time.time_ns() // 1_000_000 - keys)
        broker.load_logs(commits.logs())
        broker.wait_until_loaded()
        traffic = Traffic(broker.bootstrap_servers, commits, _COMMITS_PER_S)
        for number in range(runs):
            folder = Path(name) / str(number)
            folder.mkdir()
            for kind, phases in starts_by_kind.items():
                traffic.go_on(_COMMITTING_S)
                phases.append(_phases(broker.bootstrap_servers, folder))
                write_note(f"{kind}: {phases[-1]}")
            expected = traffic.committed.items()
            different += len(expected - committed_offsets(str(folder / "tables")).items())
    rows = [
        {
            "start": kind,
            **{name: round(median(start[name] for start in some), 2) for name in some[0]},
        }
        for kind, some in starts_by_kind.items()
    ]
    first, restart = (
        round(median(phases["finished"] for phases in starts), 2)
        for starts in starts_by_kind.values()
    )
    write_findings(findings, first_start_s=first, restart_s=restart)
    output = output_of("text")
    output.rows(rows, list(rows[0]))
    output.result({"different": different}, f"{different} committed offsets differ")
    sys.exit(_EXIT_DIFFERENT if different else 0)


def _phases(bootstrap_servers: str, folder: Path) -> Phases:
    """Start a `run` and wait for its end; return the length of each phase in seconds."""
    command = run_command(bootstrap_servers, folder, "--available-now", "--log-format", "json")
    began = time.time()
    done = subprocess.run(
        command,
        env=run_environment(),
        stderr=subprocess.PIPE,
        text=True,
        check=True,
        timeout=_MOST_S,
    )
    ended = time.time()
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    at = {name: _at(lines, beginning) for name, beginning in _LAST_LINES.items()}
    in_micro_batch = _line(lines, _LAST_LINES["micro_batch"])["duration_ms"] / 1000
    return {
        "cluster": at["cluster"] - began,
        "spark": at["spark"] - at["cluster"],
        "query": at["micro_batch"] - in_micro_batch - at["spark"],
        "micro_batch": in_micro_batch,
        "finished": at["micro_batch"] - began,
        "exit": ended - at["micro_batch"],
    }


def _at(lines: list[dict[str, Any]], beginning: str) -> float:
    return datetime.fromisoformat(_line(lines, beginning)["time"]).timestamp()


def _line(lines: list[dict[str, Any]], beginning: str) -> dict[str, Any]:
    """The first line that begins so."""
    return next(line for line in lines if line["message"].startswith(beginning))


if __name__ == "__main__":
    startup(prog_name="python -m bench.startup")
