"""`python -m bench.commands`: the time of reading commands, from the shell to their last line.

The tables have 100,000 committed offsets of 10,000 groups. The last row is a process that only
reads `group_offsets` with delta-rs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click

from bench.findings import findings_option, write_findings
from bench.hour import Shape, write_hour
from bench.processes import cli_command, run_environment
from streaming.run.stderr import write_note
from streaming.tables.schemas import GROUP_OFFSETS
from streaming.views.output import output_of

_GROUPS, _PARTITIONS = 10_000, 10
_MICRO_BATCHES = 65
"""One a second: rates are over a minute."""
_KEYS = _GROUPS * _PARTITIONS
_GROUP = "group-77"
_READ = (
    "import os, sys; from deltalake import DeltaTable; "
    # delta-rs's own reader may abort the process at its end (streaming/tables/file_systems.py).
    "DeltaTable(sys.argv[1]).to_pyarrow_table(); os._exit(0)"
)
_EXIT_DIFFERENT = 1


class _Command(NamedTuple):
    arguments: Sequence[str]
    lines: int
    """The lines that it prints; a table has a header."""


class _Row(NamedTuple):
    command: str
    lines: int
    seconds: float


_COMMANDS = (
    _Command(("show", "status"), 1 + _GROUPS),
    _Command(("show", "status", "--group", _GROUP), 2),
    _Command(("show", "lag"), 1 + _KEYS),
    _Command(("show", "lag", "--group", _GROUP), 1 + _PARTITIONS),
    _Command(("show", "offsets"), 1 + _KEYS),
    _Command(("offsets", _GROUP), 1 + _PARTITIONS),
    _Command(("sql", "SELECT count(*) FROM group_offsets"), 2),
    _Command(("sql", "SELECT group_id, sum(lag) FROM group_lag GROUP BY ALL"), 1 + _GROUPS),
)


@click.command()
@click.option("--runs", default=3, show_default=True, help="Runs of each command.")
@findings_option
def commands(runs: int, findings: Path | None) -> None:
    """Measure each command. The figures are medians in seconds.

    Fails if a command prints another number of lines than the tables have rows.
    """
    different = 0
    with tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as name:
        tables = f"{name}/tables"
        shape = Shape(
            groups=_GROUPS, partitions_per_group=_PARTITIONS, micro_batches=_MICRO_BATCHES
        )
        ends_at = write_hour(tables, shape)
        # Other processes read the tables, by the clock.
        time.sleep(max((ends_at - datetime.now(timezone.utc)).total_seconds(), 0))
        rows = []
        for arguments, lines in _COMMANDS:
            measured = [_run(cli_command(*arguments, "--tables", tables)) for _ in range(runs)]
            different += sum(line_count != lines for _, line_count in measured)
            rows.append(_row(" ".join(arguments), lines, measured))
        slowest_s = max(row.seconds for row in rows)
        read = (sys.executable, "-c", _READ, GROUP_OFFSETS.path(tables))
        rows.append(_row("delta-rs alone", 0, [_run(read) for _ in range(runs)]))
    write_findings(findings, slowest_s=slowest_s)
    output = output_of("text")
    output.rows([row._asdict() for row in rows], _Row._fields)
    output.result({"different": different}, f"{different} runs printed other lines")
    sys.exit(_EXIT_DIFFERENT if different else 0)


def _run(command: Sequence[str]) -> tuple[float, int]:
    """The seconds that a command takes, and the lines that it prints."""
    began = time.perf_counter()
    done = subprocess.run(
        command, env=run_environment(), stdout=subprocess.PIPE, check=True, timeout=300
    )
    return time.perf_counter() - began, done.stdout.count(b"\n")


def _row(name: str, lines: int, measured: Sequence[tuple[float, int]]) -> _Row:
    row = _Row(name, lines, round(median(taken for taken, _ in measured), 2))
    write_note(f"{name}: {row.seconds} s")
    return row


if __name__ == "__main__":
    commands(prog_name="python -m bench.commands")
