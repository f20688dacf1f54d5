"""Every group of the offline demo is explained as the model has it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from coordinator_state.insight.evidence import Cause
from coordinator_state.insight.lag import PRESENT
from coordinator_state.model.workload import Workload, WorkloadSettings
from coordinator_state.replay.partitioner import OFFSETS_TOPIC, partition_for
from streaming.kafka.partition_offsets import LogOffsets
from streaming.lag.sample_runs import Sample
from streaming.lag.unwritten_samples import rows_of
from streaming.local.simulation.tables import simulated_tables
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOG_OFFSETS
from streaming.views.explanation import explained, explanation_text

SETTINGS = WorkloadSettings(
    seed=7,
    groups=20,
    commit_interval_ms=1_000,
    consumer_share=0.5,
    rebalances_per_hour=60,
    stops_per_hour=10,
)
LOOP = 6
"""Rebalances of REBALANCES."""


def samples(workload: Workload) -> Iterator[Sample]:
    at = datetime.fromtimestamp(workload.now_ms / 1000, timezone.utc)
    ends = dict(workload.log_end_offsets())
    for log_partition, coordinator in workload.coordinators.items():
        ends[OFFSETS_TOPIC, log_partition] = coordinator.log.next_offset
    for (topic, partition), end in ends.items():
        offsets = LogOffsets(
            topic=topic,
            partition=partition,
            state=PRESENT,
            log_start_offset=0,
            log_end_offset=end,
            last_stable_offset=end,
            end_markers=0,
        )
        yield Sample(at, offsets)


@pytest.fixture(scope="module")
def workload() -> tuple[Workload, list[Sample]]:
    """Five minutes of the offline demo, and a sample of the logs every five seconds."""
    workload, found = Workload(SETTINGS), list[Sample]()
    for _ in range(60):
        workload.run(5_000)
        found += samples(workload)
    return workload, found


def test_the_groups_of_the_offline_demo(
    tmp_path: Path, workload: tuple[Workload, list[Sample]]
) -> None:
    simulated, sampled = workload
    tables = str(tmp_path / "tables")
    log_partitions = SETTINGS.log_partitions
    with simulated_tables(
        tables, SETTINGS.semantics, log_partitions=log_partitions, history="all"
    ) as target:
        target.take(simulated.take())
        target.writer.append(LOG_OFFSETS, rows_of(sampled))
    reader = TableReader(tables)
    rebalances = reader.read("group_events", filters=[("event", "=", "rebalance")])["group_id"]
    now = datetime.fromtimestamp(simulated.now_ms / 1000, timezone.utc)
    found = set()
    for group_id in reader.read("groups", ["group_id"])["group_id"].to_pylist():
        live = simulated.coordinators[partition_for(group_id, log_partitions)].groups[group_id]
        explanation = explained(reader, group_id, at=now)
        assert explanation is not None
        first = explanation.evidence[0].cause
        found.add(first)
        if live.members:
            is_loop = rebalances.to_pylist().count(group_id) >= LOOP
            expected = {Cause.REBALANCES, Cause.DEPLOY} if is_loop else {Cause.CAUGHT_UP}
        elif explanation.evidence[-1].cause is Cause.CAUGHT_UP:
            continue  # a simple group has no members, and keeps up
        else:
            expected = {Cause.NO_MEMBERS}
        assert first in expected, explanation_text(explanation)
    assert found == {Cause.NO_MEMBERS, Cause.REBALANCES, Cause.CAUGHT_UP}
