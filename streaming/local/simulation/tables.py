"""Simulated logs applied to tables, without a broker or Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa

from coordinator_state.log.commit_sampling import CommitSampling
from coordinator_state.model.group_coordinator import MODELLED_RELEASE
from coordinator_state.model.log import Written
from coordinator_state.model.micro_batches import micro_batch
from coordinator_state.replay.group_replay import AskTopicNames
from coordinator_state.replay.offsets import Semantics
from streaming.engine.driver.driver_engine import DriverEngine
from streaming.engine.engine import ApplyRules
from streaming.engine.micro_batch import MicroBatchApply
from streaming.errors import ConfigurationError
from streaming.tables import folder as tables_folder
from streaming.tables.load_progress import LoadProgress
from streaming.tables.opening import open_for_writing
from streaming.tables.schemas import DEFAULT_OFFSETS_RETENTION_MS, DEFAULT_SNAPSHOT_RETENTION
from streaming.tables.topic_progress import TopicProgress
from streaming.tables.writer import Writer

CLUSTER_ID = "simulated"
_QUERY = "simulation"


@dataclass(slots=True)
class SimulatedTables:
    """Tables to which the written records are applied, one micro-batch at a time.

    The first micro-batch has all log partitions, as that of the source. So an empty log partition
    is current, too.
    """

    writer: Writer
    _apply: MicroBatchApply[pa.Table]
    _has_all: bool
    _log_partitions: int
    _number: int = field(default=0)

    def take(self, written: Iterable[Written]) -> None:
        """Apply the written records as a micro-batch, unless there are none; see `micro_batch`."""
        parts = list(written)
        if not parts:
            return
        if self._number == 0:
            empty = set(range(self._log_partitions)) - {part.log_partition for part in parts}
            parts += [Written(log_partition, b"", 0, 0, 0) for log_partition in sorted(empty)]
        sampling = None if self._has_all else CommitSampling.at(time.time_ns() // 1_000_000)
        rows = micro_batch(parts, sampling=sampling)
        self._apply.apply(rows, self._number, _QUERY)
        self._number += 1


def simulated_progress(semantics: Semantics, others: Iterable[str]) -> LoadProgress:
    """The progress of a run that follows other internal topics, before its first micro-batch."""
    progress = LoadProgress(
        cluster_id=CLUSTER_ID,
        topic_id=CLUSTER_ID,
        semantics=semantics,
        release=MODELLED_RELEASE,
    )
    progress.others |= {topic: TopicProgress(topic=topic, topic_id=CLUSTER_ID) for topic in others}
    return progress


@contextmanager
def simulated_tables(
    tables: str,
    semantics: Semantics,
    *,
    log_partitions: int,
    history: str = "sampled",
    snapshot_retention: timedelta = DEFAULT_SNAPSHOT_RETENTION,
    offsets_retention_ms: int = DEFAULT_OFFSETS_RETENTION_MS,
    topic_names: AskTopicNames = lambda _topic_ids: {},
    clock: Callable[[], datetime] | None = None,
    others: Collection[str] = (),
) -> Iterator[SimulatedTables]:
    """Create new tables with their own writer epoch.

    `offsets_retention_ms` is the coordinators' retention of offsets. `clock` is the virtual clock
    of the snapshots. `others` are further internal topics whose records are written.

    Raises:
        ConfigurationError: the folder has tables already, or cannot be written.
    """
    with tables_folder.locked(tables):
        if tables_folder.has_tables(tables):
            raise ConfigurationError(f"{tables} already has tables: name another folder")
        progress = simulated_progress(semantics, others)
        tables_folder.create(
            tables,
            progress,
            log_partitions=log_partitions,
            snapshot_retention=snapshot_retention,
        )
        writer = open_for_writing(tables, "simulate")
        rules = ApplyRules(
            semantics=semantics,
            release=progress.release,
            history_mode=history,
            offsets_retention_ms=offsets_retention_ms,
            topic_names=topic_names,
        )
        apply = MicroBatchApply(DriverEngine(writer, rules), progress, clock=clock)
        yield SimulatedTables(writer, apply, history == "all", log_partitions)
