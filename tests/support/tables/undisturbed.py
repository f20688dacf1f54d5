"""What tables hold that went through something, row by row against those of a load that did not."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    LOAD_PROGRESS,
    LOST,
    LOST_REASON_PREFIX,
    QUARANTINE,
    TABLES,
    TOPIC_PROGRESS,
    TOPIC_TABLES,
)
from tests.support.clients.installed_command import command_of

_AS_IT_CAME = frozenset(
    {
        *("updated_at", "batch_id", "query_id", "table_versions", "bytes_read", "leader_epoch"),
        *("current_at", "reload_reason", "reloaded_at", "writer_epoch"),
        # Some micro-batches must read records right after their write.
        "clock_skew_ms",
        # A group's record that another one of its micro-batch supersedes is not applied.
        *("records_applied", "records_superseded"),
    }
)

Row = dict[str, Any]
Rows = Mapping[str, Counter[str]]


def run_command(servers: str, tables: Path, *options: str) -> list[str]:
    """The arguments of a `run` that keeps every commit."""
    return command_of(
        *("run", "--bootstrap-servers", servers, "--tables", str(tables), "--history", "all"),
        *("--checkpoint", f"{tables}-checkpoint", "--silent", *options),
    )


def load(servers: str, tables: Path) -> None:
    """Load the log as it is now.

    Raises:
        RuntimeError: the load failed.
    """
    command = run_command(servers, tables, "--lag-interval", "off", "--available-now")
    ended = subprocess.run(command, check=False)
    if ended.returncode:
        raise RuntimeError(f"run into {tables} ended with exit status {ended.returncode}")


def table_rows(tables: str | Path, keeps: Callable[[Row], bool] = lambda _row: True) -> Rows:
    """The rows of every table but the samples, progress rows without what micro-batches were.

    What is not in the log any more is left out, and what `keeps` does not want.
    """
    reader = TableReader(str(tables))
    rows_by_table = {}
    for table in TABLES:
        rows: list[Row] = [row for row in reader.read(table.name).to_pylist() if keeps(row)]
        rows = [row for row in rows if row.get("outcome") != LOST]
        rows = [
            row for row in rows if not str(row.get("reason", "")).startswith(LOST_REASON_PREFIX)
        ]
        if table in (LOAD_PROGRESS, TOPIC_PROGRESS):
            rows = [{n: v for n, v in row.items() if n not in _AS_IT_CAME} for row in rows]
        rows_by_table[table.name] = Counter(map(repr, rows))
    return rows_by_table


def empty_tables(rows: Rows) -> list[str]:
    """The tables of `__consumer_offsets` without rows."""
    others = {TOPIC_PROGRESS, *chain.from_iterable(TOPIC_TABLES.values())} - {QUARANTINE}
    return [table.name for table in TABLES if table not in others and not rows[table.name]]


def differences(actual: Rows, expected: Rows) -> Iterator[str]:
    """Every row that one side has and the other has not."""
    for name in expected:
        for difference, rows in (
            ("missing or different", expected[name] - actual[name]),
            ("doubled or different", actual[name] - expected[name]),
        ):
            for row in rows.elements():
                yield f"{name}: {difference} {row}"
