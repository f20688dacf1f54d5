"""Loads of random logs with the engine `spark` on a cluster, with a fault of a task or an executor.

A session of a cluster needs a process of its own: `start_session` and `load` run there. Spark
pickles `FaultyPlan`, and sends it to its Python workers.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from coordinator_state.model.log import Written
from coordinator_state.model.micro_batches import micro_batch
from streaming.engine.spark import reloads, spark_engine
from streaming.engine.spark.planning import BucketPlan, key_by_log_partition
from streaming.engine.spark.staging import StagedRows
from streaming.run.session import build_session
from streaming.tables.schemas import Table
from tests.support.logs.logs import segment
from tests.support.logs.random_logs import RandomEvents
from tests.support.tables.every_table import create
from tests.support.tables.tables_folder import start_apply

LOG_PARTITIONS: Final = 8
FAULTY: Final = 5
"""The log partition whose plan has the fault; a task plans others before it, or after it."""
_DRAWS: Final = 40
_LIMIT_S: Final = 120.0
_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Markers:
    """Files that tell all processes of a cluster of a fault."""

    folder: Path

    def leave(self, name: str) -> bool:
        """Leave a marker; return whether it is the first of this name."""
        try:
            (self.folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def numbers(self, kind: str) -> list[int]:
        """The numbers of the markers whose names are a kind and a number."""
        return sorted(int(one.name.rpartition("-")[2]) for one in self.folder.glob(f"{kind}-*"))


Fault = Callable[[Markers], None]


def task_fails(_markers: Markers) -> None:
    """Spark starts the task again."""
    raise RuntimeError("the fault of a test")


def task_waits_for_its_twin(markers: Markers) -> None:
    """Be slow until a speculative twin has come as far; both then write their rows."""
    deadline = time.monotonic() + _LIMIT_S
    while len(markers.numbers("attempt")) < 2:
        if time.monotonic() > deadline:
            raise TimeoutError(f"Spark started no twin of the task within {_LIMIT_S} s")
        threading.Event().wait(_POLL_S)


def executor_is_killed(_markers: Markers) -> None:
    """Kill the executor of this Python worker, with all map output that it has."""
    os.kill(_executor(), signal.SIGKILL)
    os._exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyPlan(BucketPlan):
    """A plan that may have a fault once, when it has planned the log partition `FAULTY`."""

    markers: Markers
    fault: Fault | None

    def planned(self, keyed: pa.Table, stored: pa.Table) -> pa.Table:
        planned = BucketPlan.planned(self, keyed, stored)
        self.markers.leave(f"executor-{_executor()}")
        if self.fault is not None and FAULTY in keyed["log_partition"].to_pylist():
            _has_fault(self.markers, self.fault)
        return planned


@dataclass(frozen=True, slots=True)
class FaultyKeying:
    """Has a fault once, when a task has read some rows of the source."""

    markers: Markers
    fault: Fault

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in key_by_log_partition(batches):
            yield batch
            _has_fault(self.markers, self.fault)


def start_session(master: str, environment: Mapping[str, str]) -> None:
    """Start the session of this process."""
    os.environ.update(environment)
    build_session(master=master, engine="spark")


def load(
    tables: str,
    number: int,
    *,
    on_spark: bool = False,
    markers: Markers | None = None,
    in_keying: Fault | None = None,
    in_plan: Fault | None = None,
    in_append: Table | None = None,
    after: Table | None = None,
) -> None:
    """Apply one of two micro-batches; its logs are always the same.

    Args:
        tables: the folder; the first micro-batch creates it.
        number: 0 or 1.
        on_spark: the engine `spark`, in place of `driver`.
        markers: of the fault, if there is one.
        in_keying: the fault of a task that stages the rows of the source.
        in_plan: the fault of a task that plans.
        in_append: the table whose rows an executor is appending when it is killed.
        after: an executor is killed after the write of this table.
    """
    if number == 0:
        create(tables, log_partitions=LOG_PARTITIONS)
    spark = SparkSession.getActiveSession() if on_spark else None
    markers = markers or Markers(Path(tables))
    read = StagedRows.read

    def rows_with_fault(
        staged: StagedRows, session: SparkSession, name: str | None = None
    ) -> DataFrame:
        rows = read(staged, session, name)
        if in_append is None or name != in_append.name:
            return rows
        return rows.mapInArrow(partial(_killed, markers=markers), rows.schema)

    apply = start_apply(
        tables,
        spark=spark,
        fault="" if after is None else after.name,
        happens=lambda: _kill_one(markers),
    )
    plan = partial(FaultyPlan, markers=markers, fault=in_plan)
    keying = key_by_log_partition if in_keying is None else FaultyKeying(markers, in_keying)
    with (
        patch.object(spark_engine, "BucketPlan", plan),
        patch.object(spark_engine, "key_by_log_partition", keying),
        patch.object(StagedRows, "read", rows_with_fault),
        # Each log partition is a bucket of its own.
        patch.object(reloads, "_GROUPS_OF_A_BUCKET", 1),
    ):
        apply.apply(_micro_batch(number), number, "query")


def _micro_batch(number: int) -> pa.Table:
    written = []
    for log_partition in range(LOG_PARTITIONS):
        choose = random.Random(log_partition)
        events = RandomEvents(group_ids=[f"{log_partition}-{name}" for name in "abc"])
        drawn = [one for _ in range(_DRAWS) for one in events.draw(choose.getrandbits(32))]
        log, end = segment(drawn)
        start, to = ((0, end // 2), (end // 2, end))[number]
        written.append(Written(log_partition, log, start, to, end))
    return micro_batch(written, compact=False)


def _has_fault(markers: Markers, fault: Fault) -> None:
    context = TaskContext.get()
    assert context is not None
    markers.leave(f"attempt-{context.taskAttemptId()}")
    if markers.leave("fault"):
        fault(markers)


def _killed(batches: Iterator[pa.RecordBatch], markers: Markers) -> Iterator[pa.RecordBatch]:
    """Rows on their way to a file; the executor is killed when the first of them are there."""
    for batch in batches:
        yield batch
        _has_fault(markers, executor_is_killed)


def _kill_one(markers: Markers) -> None:
    """Kill one of the executors that planned."""
    # The other fault may have killed it already.
    with suppress(ProcessLookupError):
        os.kill(markers.numbers("executor")[0], signal.SIGKILL)


def _executor() -> int:
    """The process of the executor of this Python worker, whose parent is a daemon of Spark."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])
