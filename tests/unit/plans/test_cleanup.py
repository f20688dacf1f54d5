"""Leftovers: dead groups, offsets of deleted topics, and orphans."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from coordinator_state.replay.partitioner import partition_for
from streaming.plans.cleanup import Leftover, cleanup
from streaming.tables.reader import TableReader
from tests.support.tables.planned_tables import MINUTE, offset, sample
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables, write_rows

NOW = datetime.now(timezone.utc).replace(microsecond=0)
OLD = NOW - timedelta(days=10)
LOG_PARTITIONS = 50


def placed(row: Row) -> Row:
    """The row in the group's own log partition, unless it names another."""
    return {"log_partition": partition_for(row["group_id"], LOG_PARTITIONS), **row}


@pytest.fixture(scope="module")
def leftovers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Leftover]:
    tables = create_tables(tmp_path_factory.mktemp("tables"), log_partitions=str(LOG_PARTITIONS))
    plain = ("dead", "alive", "never-seen", "pending", "nul\0", "only-gone", "partly-gone", "again")
    groups: list[Row] = [
        *({"group_id": group} for group in plain),
        {"group_id": "members", "member_count": 2, "state": "Stable"},
        {"group_id": "topology", "group_type": "streams", "state_timestamp": OLD},
        {"group_id": "again-members", "member_count": 1, "state": "Stable"},
    ]
    offsets = [
        offset("dead", 0, 7, OLD),
        offset("dead", 0, 7, OLD, topic="gone"),
        offset("alive", 0, 7, NOW),
        offset("members", 0, 7, OLD),
        offset("pending", 0, 7, OLD),
        offset("nul\0", 0, 7, OLD),
        offset("only-gone", 0, 7, NOW, topic="gone"),
        offset("only-gone", 1, 7, NOW, topic="gone"),
        offset("partly-gone", 0, 7, NOW, topic="gone"),
        offset("partly-gone", 0, 7, NOW),
        offset("again", 0, 7, NOW, topic_id="earlier"),
        offset("again", 1, 7, NOW, topic_id="T"),
        offset("again-members", 0, 7, NOW, topic_id="earlier"),
        offset("moved", 0, 7, OLD, log_partition=49),
    ]
    apply_micro_batch(
        tables,
        progress=[{"log_partition": n, "updated_at": NOW} for n in range(LOG_PARTITIONS)],
        groups=[placed(row) for row in groups],
        group_members=[
            placed({"group_id": "again-members", "member_id": "m", "client_id": "worker"})
        ],
        group_offsets=[placed(row) for row in offsets],
        pending_offsets=[
            placed(offset("pending", 0, 8, OLD)) | {"record_timestamp": OLD, "producer_id": 7}
        ],
        group_events=[
            placed(
                {
                    **{"group_id": "dead", "event": event, "record_offset": number},
                    **{"event_number": 0, "record_timestamp": OLD + number * MINUTE},
                    **{"client_id": client, "client_host": "/10.0.0.1"},
                }
            )
            for number, (event, client) in enumerate(
                [("member_joined", "first"), ("member_left", "last"), ("group_emptied", None)]
            )
        ],
    )
    gone = [sample(partition, NOW, None, None, topic="gone", state="gone") for partition in (0, 1)]
    write_rows(tables, "log_offsets", [*gone, sample(0, NOW, 0, 9), sample(1, NOW, 0, 9)])
    rows = cleanup(TableReader(tables), bootstrap_servers="broker:9092")
    return {(row.kind, row.group_id): row for row in rows}


def test_what_can_go_and_how(leftovers: dict[tuple[str, str], Leftover]) -> None:
    line = "kafka-consumer-groups.sh --bootstrap-server broker:9092"
    place = partition_for("moved", LOG_PARTITIONS)
    deleted = "brokers do not delete offsets of a topic that they do not have"
    tool = "a streams group: delete it with kafka-streams-groups.sh"
    assert {key: row.reason for key, row in leftovers.items()} == {
        ("group", "dead"): "",
        ("group", "nul\0"): "its id has a zero character",
        ("group", "pending"): "the group has a pending offset of an open transaction",
        ("group", "topology"): tool,
        ("offsets", "again"): "the topic was deleted and created again",
        ("offsets", "again-members"): "the group has 1 member",
        ("offsets", "only-gone"): "all topics of the group are deleted",
        ("offsets", "partly-gone"): deleted,
        ("orphan", "moved"): (
            f"no tool reaches it: Kafka looks for the group in log partition {place}"
        ),
    }
    assert {group: row.command for (_, group), row in leftovers.items() if row.command} == {
        "dead": f"{line} --delete --group dead",
        "again": f"{line} --delete-offsets --group again --topic orders:0",
        "only-gone": f"{line} --delete --group only-gone",
    }
    assert list(leftovers) == sorted(leftovers)


def test_the_facts(leftovers: dict[tuple[str, str], Leftover]) -> None:
    dead = leftovers["group", "dead"]
    assert (dead.offsets, dead.last_activity) == (2, OLD)
    assert (dead.client_id, dead.client_host) == ("last", "/10.0.0.1")
    assert leftovers["offsets", "only-gone"].offsets == 2
    assert leftovers["offsets", "partly-gone"].expires_at == NOW + timedelta(days=7)
    assert leftovers["offsets", "again-members"].client_id == "worker"
    assert leftovers["orphan", "moved"].log_partition == 49
    # Its group does not exist there, so its coordinator never expires it.
    assert leftovers["orphan", "moved"].expires_at is None


def test_the_time_without_activity(tmp_path: Path) -> None:
    tables = create_tables(tmp_path)
    offsets = [offset("g", 0, 7, NOW - 30 * MINUTE)]
    written_at = NOW - 10 * MINUTE
    apply_micro_batch(
        tables,
        progress=[{"updated_at": written_at}],
        groups=[{"group_id": "g"}],
        group_offsets=offsets,
    )
    reader = TableReader(tables)
    # It counts up to the last write of the tables: nobody knows what happened after it.
    assert cleanup(reader, timedelta(minutes=21)) == []
    assert len(cleanup(reader, timedelta(minutes=19))) == 1
