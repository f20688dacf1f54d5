"""Log partitions that are loaded again, in front of a real broker: on request, and by need."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.replay.partitioner import partition_for
from streaming.kafka.fetch import LogClient
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.reload.doubts import DECODABLE
from streaming.tables.load_progress import LoadProgress
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_OFFSETS, QUARANTINE
from streaming.verify.verify import verify_cluster
from tests.support.brokers.commits import admin_of, commit, committed, create_topic, rows_of_group
from tests.support.brokers.running_query import run_to_end, running
from tests.support.clients.command_line import call
from tests.support.eventually import Eventually
from tests.support.logs.logs import Event, offset_key, offset_value, segment

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


@contextmanager
def _stopped(broker: EmbeddedBroker) -> Iterator[None]:
    broker.stop()
    yield
    broker.start()
    broker.wait_until_loaded()


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
        with _stopped(broker):
            pass  # coordinators count the partitions when they start
        moved = _named(lambda name: partition_for(name, 5) >= LOG_PARTITIONS)
        commit(broker, moved, TOPIC, 7)
        eventually(lambda: committed(tables, moved) == [7], 120)

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


def test_what_happened_while_it_was_down(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path
) -> None:
    """A log that lost its end, and a tombstone that the cleaner removed."""
    group_id = "down"
    with closing(LogClient(broker.bootstrap_servers)) as client:
        log_partition = partition_for(group_id, len(client.high_watermarks()))

    def log(*commits: tuple[int, int | None], first: int = 0, leader_epoch: int = 0) -> bytes:
        events = [
            Event(
                key=offset_key(group_id, TOPIC, partition),
                value=None if offset is None else offset_value(offset),
                gap=first if number == 0 else 0,
            )
            for number, (partition, offset) in enumerate(commits)
        ]
        return segment(events, leader_epoch)[0]

    with _stopped(broker):
        broker.replace_log(log_partition, log((0, 10), (1, 11), (2, 12)))
    tables = run_to_end(broker, spark, tmp_path)
    assert committed(tables, group_id) == [10, 11, 12]

    # An unclean election: two records are lost, and another one has the place of the first.
    with _stopped(broker):
        broker.replace_log(log_partition, log((0, 10)))
    commit(broker, group_id, TOPIC, 13)
    run_to_end(broker, spark, tmp_path)
    assert committed(tables, group_id) == [13]
    assert _reload_of(tables, log_partition) == "the log was truncated to 1"
    history = rows_of_group(tables, "offset_commits", group_id)
    assert sorted((r["record_offset"], r["committed_offset"], r["outcome"]) for r in history) == [
        (0, 10, "committed"),
        (1, 11, "lost"),
        (1, 13, "committed"),
        (2, 12, "lost"),
    ]
    assert _gone(tables) == [
        "gone from the log: record offsets 1 to 2 were read, then the log was truncated to 1; "
        "their rows of history have the outcome lost"
    ]

    # The offset of partition 0 was deleted, and both it and its tombstone are compacted away. The
    # leader still was the same then.
    _keep_tombstones(broker, "1")
    with closing(LogClient(broker.bootstrap_servers)) as client:
        _, leader_epoch = client.describe().leaders[log_partition]
    with _stopped(broker):
        later = log((1, 21), (2, 22), first=3, leader_epoch=leader_epoch)
        broker.replace_log(log_partition, later)
    run_to_end(broker, spark, tmp_path)
    _keep_tombstones(broker, "86400000")
    assert committed(tables, group_id) == [21, 22]
    assert "delete.retention.ms" in (_reload_of(tables, log_partition) or "")
    assert _differences(broker, tables) == []


def test_lost_checkpoint_and_lost_tables(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path
) -> None:
    group_id = "lost"
    commit(broker, group_id, TOPIC, 1)
    tables = run_to_end(broker, spark, tmp_path)
    commit(broker, group_id, TOPIC, 2)
    shutil.rmtree(tmp_path / "checkpoint")
    run_to_end(broker, spark, tmp_path)
    assert committed(tables, group_id) == [2]
    assert all(row["reload_reason"] is None for row in _progress(tables).values())
    history = rows_of_group(tables, "offset_commits", group_id)
    assert sorted(row["committed_offset"] for row in history) == [1, 2]

    shutil.rmtree(tables)
    commit(broker, group_id, TOPIC, 3)
    run_to_end(broker, spark, tmp_path)
    assert committed(tables, group_id) == [3]
    history = rows_of_group(tables, "offset_commits", group_id)
    assert [row["committed_offset"] for row in history][-1] == 3


def test_a_release_that_decodes_more(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path
) -> None:
    """An earlier release left a commit of a log partition in quarantine."""
    group_id = "quarantined"
    commit(broker, group_id, TOPIC, 1)
    tables = run_to_end(broker, spark, tmp_path)
    commits = rows_of_group(tables, "offset_commits", group_id)
    _quarantine(tables, commits[-1])
    assert committed(tables, group_id) == []
    run_to_end(broker, spark, tmp_path)
    assert committed(tables, group_id) == [1]
    assert _reload_of(tables, commits[-1]["log_partition"]) == DECODABLE
    assert _gone(tables) == []
    assert rows_of_group(tables, "offset_commits", group_id) == commits
    assert _differences(broker, tables) == []


def _quarantine(tables: Path, row: Row) -> None:
    """Move an offset to the quarantine, as a release does that cannot decode it."""
    writer, progress = open_for_writing(str(tables), "run"), LoadProgress.read(TableReader(tables))
    record = {
        "log_topic": OFFSETS_TOPIC,
        "raw_key": offset_key(row["group_id"], row["topic"], row["partition"]),
        "raw_value": offset_value(row["committed_offset"]),
        "reason": "unknown version",
        **{name: row[name] for name in ("log_partition", "record_offset")},
    }
    versions = progress.table_versions
    versions[QUARANTINE.name] = writer.append(QUARANTINE, pa.Table.from_pylist([record]))
    schema = pa.schema(
        [GROUP_OFFSETS.schema.field(n) for n in (*GROUP_OFFSETS.key, "record_offset")]
    )
    deletion = pa.Table.from_pylist([row], schema=schema)
    deletion = deletion.append_column("is_deleted", pa.array([True]))
    versions[GROUP_OFFSETS.name] = writer.merge(
        GROUP_OFFSETS, deletion, guard=None, deletes="is_deleted"
    )
    progress.write(writer)


def _keep_tombstones(broker: EmbeddedBroker, retention_ms: str) -> None:
    config = {"delete.retention.ms": retention_ms}
    with admin_of(broker) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, OFFSETS_TOPIC, config)])
