"""`python -m bench.scale`: both engines by the number of keys: time, bytes and memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import click

from bench.processes import run_environment
from bench.scale_log import ScaleLog
from streaming.run.stderr import write_note
from streaming.views.output import output_of

_COLUMNS = [
    *("engine", "keys", "what", "micro_batches", "median_s", "most_s", "written_mb", "first_s"),
]
_HEAP = "2g"


@click.command()
@click.option("--keys", multiple=True, type=int, default=(100_000, 1_000_000), show_default=True)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    type=click.Choice(["driver", "spark", "spark-dv"]),
    default=("driver", "spark"),
    show_default=True,
    help="spark-dv is the engine spark with deletion vectors.",
)
@click.option(
    "--master",
    default="local[2]",
    show_default=True,
    help="With local-cluster[1,2,2048], the executor is a process of its own with 2,048 MB.",
)
def scale(keys: tuple[int, ...], engines: tuple[str, ...], master: str) -> None:
    """Load members and a first commit of every key, then commits of few groups, and restart.

    The tables are compared with the last commit of each key. The heap of the JVM is 2 GB.
    """
    rows: list[dict[str, Any]] = []
    memory: list[dict[str, Any]] = []
    different = 0
    for count in keys:
        with tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as name:
            log = ScaleLog(Path(name) / "log")
            write_note(f"writing a log of {count} keys")
            log.write(count, time.time_ns() // 1_000_000 - count)
            for engine in engines:
                write_note(f"engine {engine}, {count} keys")
                tables = str(Path(name) / f"tables-{engine}")
                measurements = list(_run(log, tables, engine, master))
                rows += _summary(engine, count, measurements[:-1])
                memory.append({"engine": engine, "keys": count, **measurements[-1]["peak_mb"]})
                differing = log.differences(tables)
                write_note(f"{differing} committed offsets or members differ")
                different += differing
    output = output_of("text")
    output.rows(rows, _COLUMNS)
    output.rows(
        memory, ["engine", "keys", "driver_python", "driver_jvm", "executor_jvm", "workers"]
    )
    sys.exit(1 if different else 0)


def _run(log: ScaleLog, tables: str, engine: str, master: str) -> Iterator[dict[str, Any]]:
    arguments = [str(log.folder), tables, engine, master]
    command = [sys.executable, "-m", "bench.scale_run", *arguments]
    environment = {**run_environment(), "SPARK_DRIVER_MEMORY": _HEAP}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=Path.cwd()
    )
    if process.stdout is None:
        raise RuntimeError("the process has no output")
    for line in process.stdout:
        measurement = json.loads(line)
        write_note(f"  {measurement}")
        yield measurement
    if process.wait():
        raise RuntimeError(f"the engine {engine} failed with status {process.returncode}")


def _summary(engine: str, keys: int, micro_batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for micro_batch in micro_batches:
        by_kind[micro_batch["kind"]].append(micro_batch)
    return [
        {
            "engine": engine,
            "keys": keys,
            "what": kind,
            "micro_batches": len(some),
            "first_s": some[0]["seconds"],
            "median_s": round(median(micro_batch["seconds"] for micro_batch in some), 2),
            "most_s": max(micro_batch["seconds"] for micro_batch in some),
            "written_mb": round(median(micro_batch["written_mb"] for micro_batch in some), 2),
        }
        for kind, some in by_kind.items()
    ]


if __name__ == "__main__":
    scale(prog_name="python -m bench.scale")
