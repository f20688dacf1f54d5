"""`python -m bench.versions`: what the entries of Delta's log cost that are kept for the past."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import click
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from streaming.views.output import output_of

_VERSIONS = (50, 3_600, 86_400)


@click.command()
@click.option("--runs", default=5, show_default=True, help="Of which the fastest is told.")
def bench(runs: int) -> None:
    """Open a table and replace its rows, beside so many entries of its log."""
    rows = [{"versions": versions, **_seconds(versions, runs)} for versions in _VERSIONS]
    output_of("text").rows(rows, ["versions", "open_s", "replace_s"])


def _seconds(versions: int, runs: int) -> dict[str, float]:
    row = pa.table({"number": [1]})
    with tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as path:
        write_deltalake(path, row)
        entry = {"commitInfo": {"timestamp": time.time_ns() // 1_000_000, "operation": "WRITE"}}
        for version in range(1, versions):
            log_file = Path(path, "_delta_log", f"{version:020}.json")
            log_file.write_text(json.dumps(entry) + "\n")
        DeltaTable(path).create_checkpoint()
        opening, replacing = [], []
        for _ in range(runs):
            began = time.perf_counter()
            opened = DeltaTable(path)
            opening.append(time.perf_counter() - began)
            began = time.perf_counter()
            write_deltalake(opened, row, mode="overwrite")
            replacing.append(time.perf_counter() - began)
    return {"open_s": round(min(opening), 4), "replace_s": round(min(replacing), 4)}


if __name__ == "__main__":
    bench(prog_name="python -m bench.versions")
