"""Loads of random logs with the engine `spark` on a cluster, with a fault of a task.

A session of a cluster needs a process of its own: `start_session` and `load` run there. Spark
pickles `FaultyPlan`, and sends it to its Python workers.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from coordinator_state.model.log import Written
from coordinator_state.model.micro_batches import micro_batch
from coordinator_state.replay.partitioner import partition_for
from streaming.engine.spark import reloads, spark_engine
from streaming.engine.spark.planning import BucketPlan, key_by_log_partition
from streaming.run import spark_evaluation
from streaming.run.session import build_session
from streaming.run.spark_evaluation import EvaluationTask
from tests.support.logs.logs import segment
from tests.support.logs.random_logs import RandomEvents
from tests.support.tables.evaluated import evaluate
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

    @property
    def attempts(self) -> int:
        """The attempts of the task with the fault."""
        return len([*self.folder.glob("attempt-*")])


Fault = Callable[[Markers], None]


def task_fails(_markers: Markers) -> None:
    """Spark starts the task again."""
    raise RuntimeError("the fault of a test")


def task_waits_for_its_twin(markers: Markers) -> None:
    """Be slow until a speculative twin has come as far; both then write their rows."""
    deadline = time.monotonic() + _LIMIT_S
    while markers.attempts < 2:
        if time.monotonic() > deadline:
            raise TimeoutError(f"Spark started no twin of the task within {_LIMIT_S} s")
        threading.Event().wait(_POLL_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyPlan(BucketPlan):
    """A plan that may have a fault once, when it has planned the log partition `FAULTY`."""

    markers: Markers
    fault: Fault | None

    def planned(self, keyed: pa.Table, stored: pa.Table) -> pa.Table:
        planned = BucketPlan.planned(self, keyed, stored)
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
) -> None:
    """Apply one of two micro-batches, whose logs are always the same; 0 creates the folder.

    A fault is of a task that stages the rows of the source, or of a task that plans.
    """
    if number == 0:
        create(tables, log_partitions=LOG_PARTITIONS)
    spark = SparkSession.getActiveSession() if on_spark else None
    markers = markers or Markers(Path(tables))
    apply = start_apply(tables, spark=spark)
    plan = partial(FaultyPlan, markers=markers, fault=in_plan)
    keying = key_by_log_partition if in_keying is None else FaultyKeying(markers, in_keying)
    with (
        patch.object(spark_engine, "BucketPlan", plan),
        patch.object(spark_engine, "key_by_log_partition", keying),
        # Each log partition is a bucket of its own.
        patch.object(reloads, "_GROUPS_OF_A_BUCKET", 1),
    ):
        apply.apply(_micro_batch(number), number, "query")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyEvaluation(EvaluationTask):
    """A task that fails once, when it has evaluated the log partition `FAULTY`."""

    markers: Markers

    def evaluated(self, log_partitions: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
        yield from EvaluationTask.evaluated(self, log_partitions)
        if FAULTY in log_partitions:
            _has_fault(self.markers, task_fails)


def evaluate_with_fault(tables: str, at: datetime, markers: Markers) -> None:
    """Evaluate in the session of this process, with a task that fails once."""
    with patch.object(
        spark_evaluation, "EvaluationTask", partial(FaultyEvaluation, markers=markers)
    ):
        evaluate(tables, at, SparkSession.getActiveSession())


def _micro_batch(number: int) -> pa.Table:
    written = []
    for log_partition in range(LOG_PARTITIONS):
        choose = random.Random(log_partition)
        events = RandomEvents(group_ids=_own_groups(log_partition))
        drawn = [event for _ in range(_DRAWS) for event in events.draw(choose.getrandbits(32))]
        log, end = segment(drawn)
        start, to = ((0, end // 2), (end // 2, end))[number]
        written.append(Written(log_partition, log, start, to, end))
    return micro_batch(written)


def _own_groups(log_partition: int) -> list[str]:
    """Three groups whose coordinator has this log partition: others are not evaluated."""
    names = (f"group-{number}" for number in count())
    own = (name for name in names if partition_for(name, LOG_PARTITIONS) == log_partition)
    return list(islice(own, 3))


def _has_fault(markers: Markers, fault: Fault) -> None:
    context = TaskContext.get()
    assert context is not None
    markers.leave(f"attempt-{context.taskAttemptId()}")
    if markers.leave("fault"):
        fault(markers)
