"""What befalls a cluster while it is read; `python -m tests.cluster_faults` does more of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from coordinator_state.replay.partitioner import partition_for
from streaming.errors import LogTruncated
from streaming.local.demo.groups import Clients, create_topics
from streaming.source.coordinator_log import CoordinatorLogDataSource, CoordinatorLogStreamReader
from streaming.verify.verify import verify_cluster
from tests.cluster_faults.stage import CLUSTER_PROPERTIES, LOG_PARTITIONS, Stage
from tests.support.brokers.commits import committed
from tests.support.brokers.embedded_cluster import EmbeddedCluster
from tests.support.brokers.running_query import running
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

GROUP = "faults"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("cluster")
    with EmbeddedCluster(folder=folder, properties=CLUSTER_PROPERTIES) as cluster:
        cluster.create_offsets_topic()
        create_topics(Clients(cluster.bootstrap_servers))
        yield Stage(cluster, seed=1)


def leader_of(stage: Stage, group_id: str) -> int:
    return stage.leaders()[partition_for(group_id, LOG_PARTITIONS)]


def leaders_move(stage: Stage) -> None:
    stage.move_leaders()


def the_leader_is_killed(stage: Stage) -> None:
    leader = leader_of(stage, GROUP)
    stage.cluster.brokers[leader].kill()
    stage.await_leaders(but_not=leader)


def the_leader_stalls(stage: Stage) -> None:
    leader = leader_of(stage, GROUP)
    stage.cluster.brokers[leader].pause()
    try:
        stage.await_leaders(but_not=leader)
    finally:
        stage.cluster.brokers[leader].resume()


def the_coordinator_moves_in_a_transaction(stage: Stage) -> None:
    stage.commit_across_a_move("moved", 7)


def test_a_query_goes_on_by_itself(
    stage: Stage,
    spark: SparkSession,
    tmp_path: Path,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "streaming.run.supervision")
    faults: list[Callable[[Stage], None]] = [
        leaders_move,
        the_leader_is_killed,
        the_leader_stalls,
        the_coordinator_moves_in_a_transaction,
    ]

    with running(stage.cluster, spark, tmp_path, eventually) as tables:
        for number, fault in enumerate(faults, start=1):
            stage.commit(GROUP, 10 * number)
            fault(stage)
            stage.commit(GROUP, 10 * number + 1)
            eventually(lambda: committed(tables, GROUP) == [10 * number + 1], 120)  # noqa: B023
            stage.whole()
        eventually(lambda: committed(tables, "moved") == [7], 120)
        assert verify_cluster(stage.cluster.bootstrap_servers, str(tables)).is_equal
    assert "streaming.run.supervision" not in {record.name for record in caplog.records}


def test_an_unclean_election_is_noticed(stage: Stage) -> None:
    """By who looks at once, and by who looks when the log has grown past where it was."""
    stage.whole()
    stage.allow_unclean_election()
    leader = leader_of(stage, GROUP)
    others = [node_id for node_id in stage.cluster.brokers if node_id != leader]
    for node_id in others:
        stage.cluster.brokers[node_id].kill()
    stage.await_in_sync({leader})
    stage.commit(GROUP, *range(5))
    live, late = reader_of(stage), reader_of(stage)
    start = live.initialOffset()
    seen = late.latestOffset(start, ReadAllAvailable())
    ranges = late.partitions(start, seen)
    late.stop()
    assert live.latestOffset(seen, ReadAllAvailable()) == seen

    stage.cluster.brokers[leader].kill()
    stage.cluster.brokers[others[0]].start()
    stage.await_leaders(but_not=leader)
    log_partition = partition_for(GROUP, LOG_PARTITIONS)
    truncated = f"log partition {log_partition} of .*the log was truncated to"
    with pytest.raises(LogTruncated, match=truncated):
        live.latestOffset(seen, ReadAllAvailable())
    live.stop()

    stage.commit(GROUP, *range(20))
    grown = reader_of(stage)
    assert positions(grown.initialOffset())[log_partition] == 0
    with pytest.raises(LogTruncated, match=truncated):
        grown.latestOffset(seen, ReadAllAvailable())
    with pytest.raises(LogTruncated, match=truncated):
        for planned in ranges:
            list(grown.read(planned))
    grown.stop()


def reader_of(stage: Stage) -> CoordinatorLogStreamReader:
    data_source = CoordinatorLogDataSource(
        {"kafka.bootstrap.servers": stage.cluster.bootstrap_servers, "long_poll_ms": "0"}
    )
    return data_source.streamReader(data_source.schema())


def positions(offset: dict[str, Any]) -> dict[int, int]:
    return {int(p): position for p, (position, _) in offset["p"].items()}
