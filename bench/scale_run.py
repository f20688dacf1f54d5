"""One engine applies the micro-batches of a log; `bench.scale` starts this as a process.

It prints one line of JSON for each micro-batch, and one for the whole run.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from bench.processes import memory_by_program
from bench.scale_log import SMALL, ScaleLog
from coordinator_state.replay.offsets import Semantics
from streaming.engine.driver.driver_engine import DriverEngine
from streaming.engine.engine import ApplyRules, Engine
from streaming.engine.micro_batch import MicroBatchApply
from streaming.engine.spark.spark_engine import SparkEngine
from streaming.engine.spark.spark_tables import SparkTables
from streaming.engine.spark.upkeep import enable_deletion_vectors
from streaming.run.session import EngineName, build_session
from streaming.tables import folder as tables_folder
from streaming.tables.load_progress import LoadProgress
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader

_INTERVAL_S = 0.5
_PROCESSES = {"own": "driver_python", "java": "driver_jvm", "executor": "executor_jvm"}


class _Peaks:
    """The most memory (PSS) of this process, of the JVMs and of Spark's Python workers."""

    def __init__(self) -> None:
        self.mb: dict[str, int] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        own = str(os.getpid())
        while True:
            for name, size in memory_by_program(os.getpid()).items():
                known = _PROCESSES.get("own" if name == own else name, "workers")
                self.mb[known] = max(self.mb.get(known, 0), size >> 20)
            time.sleep(_INTERVAL_S)


def run(
    log: ScaleLog, tables: str, engine_name: EngineName, master: str, *, deletion_vectors: bool
) -> None:
    """Apply all micro-batches; the last one with a new engine, as after a restart."""
    peaks = _Peaks()
    session = build_session(engine=engine_name, master=master)
    session.sparkContext.setLogLevel("ERROR")
    nothing = LoadProgress(cluster_id="c", topic_id="t", semantics=Semantics.COORDINATOR)
    tables_folder.create(tables, nothing, log_partitions=50)

    def started() -> MicroBatchApply[Any]:
        writer = open_for_writing(tables, "bench")
        rules = ApplyRules(
            semantics=nothing.semantics, release=nothing.release, history_mode="sampled"
        )
        engine: Engine[Any] = DriverEngine(writer, rules)
        if engine_name == "spark":
            engine = SparkEngine(writer, rules, session)
            if deletion_vectors:
                enable_deletion_vectors(session, SparkTables(tables))
        return MicroBatchApply(engine, LoadProgress.read(TableReader(tables)))

    apply = started()
    micro_batches = log.micro_batches
    for number, (kind, file) in enumerate(micro_batches):
        is_restart = number == len(micro_batches) - 1 and kind == SMALL
        before = _files(tables)
        began = time.monotonic()
        if is_restart:
            apply = started()
        rows = apply.engine.rows_of(session.read.parquet(str(file)))
        apply.apply(rows, number, "bench")
        _print(
            kind="restart" if is_restart else kind,
            seconds=round(time.monotonic() - began, 2),
            written_mb=_written_mb(before, _files(tables)),
        )
    session.stop()
    _print(kind="total", peak_mb=peaks.mb)


def _files(tables: str) -> dict[str, int]:
    """The size of each data file."""
    files = Path(tables).rglob("*.parquet")
    return {str(file): file.stat().st_size for file in files if "_delta_log" not in file.parts}


def _written_mb(before: dict[str, int], after: dict[str, int]) -> float:
    return round(sum(after[file] for file in after.keys() - before.keys()) / 1e6, 2)


def _print(**measurement: Any) -> None:
    sys.stdout.write(json.dumps(measurement) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _, folder, tables_to_write, engine, master = sys.argv
    run(
        ScaleLog(Path(folder)),
        tables_to_write,
        "driver" if engine == "driver" else "spark",
        master,
        deletion_vectors=engine == "spark-dv",
    )
