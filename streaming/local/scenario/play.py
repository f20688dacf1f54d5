"""Plays scenarios: virtual time passes, `run` writes, and statuses and rules are evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import pyarrow as pa

from coordinator_state.model.group_coordinator import MODELLED_RELEASE
from coordinator_state.model.log import Written
from coordinator_state.model.micro_batches import micro_batch
from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC
from coordinator_state.replay.offsets import Semantics
from streaming.kafka.partition_offsets import LogOffsets, TopicPartition
from streaming.lag.evaluation import Evaluation
from streaming.lag.paces import KnownPaces
from streaming.lag.sample_runs import Sample, SampleRuns
from streaming.lag.unwritten_samples import rows_of
from streaming.local.scenario.brokers import LOG_PARTITIONS, Brokers
from streaming.local.scenario.group_clients import GroupClients
from streaming.local.scenario.memory_tables import MemorySnapshots, MemoryWriter, apply_in_memory
from streaming.local.scenario.scenario import LOOK_S, TICK_S, Scenario
from streaming.local.scenario.topic_logs import TopicLogs
from streaming.local.simulation.tables import CLUSTER_ID, simulated_tables
from streaming.run.evaluation import StatusEvaluation
from streaming.run.log_ends import LogEnds, committed_positions
from streaming.run.missed_sampling import MissedSampling
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    DEFAULT_OFFSETS_RETENTION_MS,
    HISTORY_ALL,
    LOG_OFFSETS,
    PROPERTY_CLUSTER_ID,
    PROPERTY_LOG_PARTITIONS,
    PROPERTY_OFFSETS_RETENTION_MS,
    PROPERTY_SEMANTICS,
)

_QUERY: Final = "scenario"


class Cluster:
    """The brokers and the clients of scenarios that have the same `run`.

    Attributes:
        brokers: the brokers.
        lasts_s: how long the longest scenario lasts.
        names: the name in the cluster of each group, by scenario and group. The names of several
            scenarios are made distinct by a prefix.
    """

    def __init__(self, scenarios: Sequence[Scenario], begin: datetime) -> None:
        self.brokers = Brokers(scenarios[0].run, begin)
        self.lasts_s = max(scenario.lasts_s for scenario in scenarios)
        self.names: dict[tuple[str, str], str] = {}
        self._groups: list[GroupClients] = []
        for scenario in scenarios:
            self._add(scenario, f"{scenario.name}." if len(scenarios) > 1 else "")
        self._read: set[str] = set()

    def _add(self, scenario: Scenario, prefix: str) -> None:
        names = {name: prefix + name for name in scenario.topics}
        for name, topic in scenario.topics.items():
            self.brokers.topics[names[name]] = TopicLogs(names[name], topic)
        for name, group in scenario.groups.items():
            self.names[scenario.name, name] = prefix + name
            self._groups.append(GroupClients(self.brokers, prefix + name, group, names))

    @property
    def now(self) -> datetime:
        """The time by the clock of `run`."""
        return self.brokers.now

    @property
    def is_run_up(self) -> bool:
        """Whether `run` writes."""
        return not any(down.has(self.brokers.seconds) for down in self.brokers.run.down)

    def tick(self, t: int) -> None:
        """Everything that happens at a moment, in seconds since the begin."""
        self.brokers.tick(t)
        for group in self._groups:
            group.tick(t)

    def sample(self) -> list[LogOffsets]:
        """The offsets of all logs of topics that groups have read, and of the internal topics."""
        self._read.update(topic for group in self._groups for topic in group.members.topics)
        return self.brokers.sample(self._read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The tables at a moment, and their evaluation.

    Attributes:
        t: the seconds since the begin.
        at: the moment.
        reader: the tables.
        evaluation: lag and status of all groups.
    """

    t: int
    at: datetime
    reader: TableReader
    evaluation: Evaluation


OnWrite: TypeAlias = Callable[[Sequence[Written], pa.Table, Evaluation], None]
"""Called with the records and offset samples that `run` writes, and with their evaluation."""


def play(
    cluster: Cluster, on_write: OnWrite = lambda _written, _samples, _evaluation: None
) -> Iterator[Look]:
    """Play the scenarios of a cluster, for as long as the longest lasts; yields each look.

    Raises:
        ConfigurationError: an administrator of a scenario asks for what no broker does.
    """
    run = _Run(cluster)
    known = KnownPaces()
    for t in range(0, cluster.lasts_s + 1, TICK_S):
        cluster.tick(t)
        if cluster.is_run_up:
            run.sample()
        if t % LOOK_S:
            continue
        written = run.write() if cluster.is_run_up else None
        reader = run.snapshots.reader(cluster.now)
        if reader is None:
            continue
        evaluation = Evaluation.of(reader, at=cluster.now, known=known)
        if written is not None:
            on_write(*written, evaluation)
        # At the begin nothing has happened yet.
        if t:
            yield Look(t=t, at=cluster.now, reader=reader, evaluation=evaluation)


class _Run:
    """The micro-batches and samples of `run`, into tables in memory."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._writer = MemoryWriter.create()
        self._apply = apply_in_memory(
            self._writer,
            release=MODELLED_RELEASE,
            topic_names=cluster.brokers.topic_names,
            clock=lambda: cluster.now,
        )
        self.snapshots = MemorySnapshots(_PROPERTIES)
        self._runs = SampleRuns()
        self._ends = LogEnds(cluster.brokers)
        self._missed = MissedSampling(cluster.brokers, lambda _: frozenset())
        self._samples: list[Sample] = []
        self._number = 0

    def sample(self) -> None:
        """Sample the logs, also at the moments that were missed."""
        now, samples = self._cluster.now, self._cluster.sample()
        if (reader := self.snapshots.reader(now)) is not None:
            samples = self._ends.with_markers(now, samples, lambda _: committed_positions(reader))
        by_place = {TopicPartition(each.topic, each.partition): each for each in samples}
        self._samples += self._runs.keep(now, samples)
        self._samples += self._missed.before(now, by_place, self._clock_skew)

    @property
    def _clock_skew(self) -> timedelta:
        return timedelta(milliseconds=self._apply.progress.clock_skew_ms or 0)

    def write(self) -> tuple[Sequence[Written], pa.Table]:
        """Write a micro-batch, and the samples since the last one."""
        written, samples = self._cluster.brokers.take(), rows_of(self._samples)
        self._samples.clear()
        self._writer.append(LOG_OFFSETS, samples)
        self._apply.apply(micro_batch(written), self._number, _QUERY)
        self._number += 1
        self.snapshots.add(self._cluster.now, self._writer)
        return written, samples


def scenario_tables(scenario: Scenario, tables: str, *, begin: datetime) -> int:
    """Play a scenario into new tables; return the number of records of `__consumer_offsets`.

    Raises:
        ConfigurationError: the folder has tables already, or cannot be written, or the scenario
            cannot be played.
    """
    cluster = Cluster([scenario], begin)
    with simulated_tables(
        tables,
        Semantics.COORDINATOR,
        log_partitions=LOG_PARTITIONS,
        history=HISTORY_ALL,
        snapshot_retention=timedelta(seconds=scenario.lasts_s) + timedelta(days=7),
        topic_names=cluster.brokers.topic_names,
        clock=lambda: cluster.now,
        others=[SHARE_STATE_TOPIC],
    ) as target:
        evaluations = StatusEvaluation(target.writer, interval_s=LOOK_S)

        def write(written: Sequence[Written], samples: pa.Table, evaluation: Evaluation) -> None:
            if samples.num_rows:
                target.writer.append(LOG_OFFSETS, samples)
            target.take(written)
            evaluations.keep(evaluation)

        for _ in play(cluster, write):
            pass
    return cluster.brokers.coordinator.log.next_offset


_PROPERTIES: Final[Mapping[str, str]] = {
    PROPERTY_CLUSTER_ID: CLUSTER_ID,
    PROPERTY_LOG_PARTITIONS: str(LOG_PARTITIONS),
    PROPERTY_SEMANTICS: Semantics.COORDINATOR.value,
    PROPERTY_OFFSETS_RETENTION_MS: str(DEFAULT_OFFSETS_RETENTION_MS),
}
