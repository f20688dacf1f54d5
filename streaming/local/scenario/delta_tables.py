"""`simulate --scenario`: plays a scenario into new Delta tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from coordinator_state.model.log import Written
from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC
from coordinator_state.replay.offsets import Semantics
from streaming.lag.evaluation import Evaluation
from streaming.local.scenario.brokers import LOG_PARTITIONS
from streaming.local.scenario.play import Cluster, play
from streaming.local.scenario.scenario import LOOK_S, Scenario
from streaming.local.simulation.tables import SimulatedTables, simulated_tables
from streaming.run.evaluation import StatusEvaluation
from streaming.tables.schemas import HISTORY_ALL, LOG_OFFSETS


@dataclass(slots=True)
class _DeltaTables:
    """The tables of a folder, which get what the tables in memory get."""

    tables: SimulatedTables
    evaluations: StatusEvaluation

    def write(self, written: Sequence[Written], samples: pa.Table, evaluation: Evaluation) -> None:
        if samples.num_rows:
            self.tables.writer.append(LOG_OFFSETS, samples)
        self.tables.take(written)
        self.evaluations.keep(evaluation)


def scenario_tables(scenario: Scenario, tables: str, *, begin: datetime) -> int:
    """Play a scenario into new tables; return the number of records of `__consumer_offsets`.

    Raises:
        ConfigurationError: the folder has tables already, or cannot be written, or the scenario
            cannot be played.
    """
    clusters: list[Cluster] = []
    with simulated_tables(
        tables,
        Semantics.COORDINATOR,
        log_partitions=LOG_PARTITIONS,
        history=HISTORY_ALL,
        snapshot_retention=timedelta(seconds=scenario.lasts_s) + timedelta(days=7),
        topic_names=lambda ids: clusters[0].brokers.topic_names(ids),
        clock=lambda: clusters[0].now,
        others=[SHARE_STATE_TOPIC],
    ) as target:
        evaluations = StatusEvaluation(target.writer, interval_s=LOOK_S)
        also = _DeltaTables(target, evaluations)
        for _ in play([scenario], begin=begin, on_cluster=clusters.append, also=also):
            pass
    return clusters[0].brokers.coordinator.log.next_offset
