"""Log partitions that a running query loads again: on request, and by need.

`test_cluster_faults.py` has a log that was truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coordinator_state.replay.partitioner import OFFSETS_TOPIC, partition_for
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from streaming.verify.verify import verify_cluster
from tests.support.brokers.commits import commit, committed, create_topic, rows_of_group
from tests.support.brokers.running_query import running
from tests.support.clients.admin_client import admin_of
from tests.support.clients.command_line import call
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

LOG_PARTITIONS = 3
TOPIC = "reloaded"
Row = dict[str, Any]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        folder=tmp_path_factory.mktemp("reload-broker"),
        properties={"offsets.topic.num.partitions": LOG_PARTITIONS},
    ) as started:
        create_topic(started, TOPIC, 4)
        started.create_offsets_topic()
        yield started


def _named(is_fit: Callable[[str], bool]) -> str:
    """A group id that hashes as it should."""
    return next(filter(is_fit, map("group-{}".format, range(1_000))))


def _progress(tables: Path) -> dict[int, Row]:
    rows = TableReader(tables).read("load_progress").to_pylist()
    return {row["log_partition"]: row for row in rows}


def _reload_of(tables: Path, log_partition: int) -> str | None:
    """Why a log partition was loaded again, once it is."""
    row = _progress(tables).get(log_partition)
    is_done = row is not None and row["state"] == "current" and row["reloaded_at"] is not None
    return row["reload_reason"] if row is not None and is_done else None


def _gone(tables: Path) -> list[str]:
    return TableReader(tables).read("quarantine")["reason"].to_pylist()


def _differences(broker: EmbeddedBroker, tables: Path) -> list[str]:
    verified = verify_cluster(broker.bootstrap_servers, str(tables), timeout_s=120)
    assert not verified.behind
    return list(map(str, verified.differences))


def test_while_it_runs(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    """On request; then the topic is given more partitions, and last deleted and created again."""
    # A group that stays where it is; others leave an orphan that ListGroups goes on to tell.
    group_id = _named(lambda name: partition_for(name, 3) == partition_for(name, 5))
    log_partition = partition_for(group_id, LOG_PARTITIONS)
    commit(broker, group_id, TOPIC, 1, 2)
    with running(broker, spark, tmp_path, eventually) as tables:
        eventually(lambda: committed(tables, group_id) == [2], 120)
        before = rows_of_group(tables, "offset_commits", group_id)
        call("reload", "--tables", str(tables), "--log-partition", str(log_partition))
        eventually(lambda: _reload_of(tables, log_partition) == "requested", 120)
        commit(broker, group_id, TOPIC, 3)
        eventually(lambda: committed(tables, group_id) == [3], 120)
        after = rows_of_group(tables, "offset_commits", group_id)
        assert [row for row in after if row["committed_offset"] < 3] == before
        others = {p for p, row in _progress(tables).items() if row["reload_reason"] is not None}
        assert others == {log_partition}

        with admin_of(broker) as admin:
            admin.create_partitions({OFFSETS_TOPIC: LOG_PARTITIONS + 2})
        eventually(lambda: len(_progress(tables)) == LOG_PARTITIONS + 2, 120)
        broker.restart()  # coordinators count the partitions when they start
        broker.wait_until_loaded()
        moved = _named(lambda name: partition_for(name, 5) >= LOG_PARTITIONS)
        commit(broker, moved, TOPIC, 7)
        eventually(lambda: committed(tables, moved) == [7], 120)
        assert _differences(broker, tables) == []

        with admin_of(broker) as admin:
            admin.delete_topics([OFFSETS_TOPIC])
        broker.stop()
        broker.start()  # coordinators would keep what they know
        commit(broker, group_id, TOPIC, 40)
        eventually(lambda: committed(tables, group_id) == [40], 120)
        history = rows_of_group(tables, "offset_commits", group_id)
        assert sorted((row["committed_offset"], row["outcome"]) for row in history) == [
            *((offset, "lost") for offset in (1, 2, 3)),
            (40, "committed"),
        ]
        assert any("deleted and created again" in reason for reason in _gone(tables))
        assert set(_progress(tables)) == set(range(LOG_PARTITIONS))
        assert rows_of_group(tables, "group_offsets", moved) == []
        assert _differences(broker, tables) == []
