"""External groups: their offsets are rows of the tables of groups, as of every moment."""

from __future__ import annotations

import json
import logging
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from deltalake import DeltaTable

from streaming.api.app import create_app
from streaming.external.external_group import ExternalGroup
from streaming.kafka.partition_offsets import TopicPartition
from streaming.lag.group_status import group_statuses
from streaming.run.external_sampling import ExternalSampling
from streaming.served.cluster import Cluster
from streaming.tables.opening import open_for_writing
from streaming.tables.past import Past
from streaming.tables.reader import TableReader
from streaming.tables.schemas import EXTERNAL_OFFSETS, GROUP_EVENTS, OFFSET_COMMITS
from streaming.views.coordinator_tables import CoordinatorTables
from streaming.views.explanation import explained
from tests.support.tables.spark_checkpoint import of_orders, write_batch
from tests.support.tables.tables_folder import apply_micro_batch, create_tables, write_rows

NOW = datetime.now(timezone.utc)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tables with a group of Kafka and no external one."""
    folder = create_tables(tmp_path_factory.mktemp("empty") / "tables", external="true")
    apply_micro_batch(
        folder,
        progress=[{"updated_at": NOW, "next_offset": 5, "high_watermark": 5}],
        groups=[{"group_id": "kafka"}],
        group_offsets=[
            {"group_id": "kafka", "topic": "orders", "partition": 0, "committed_offset": 7}
        ],
    )
    write_rows(
        folder,
        "log_offsets",
        [
            {
                **{"topic": topic, "partition": 0, "state": "present", "topic_id": "T"},
                **{"sampled_at": NOW + timedelta(seconds=s), "day": NOW.date()},
                **{"log_start_offset": 0, "log_end_offset": end, "last_stable_offset": end},
            }
            for s in (-400, -5, 0)
            for topic, end in (("orders", 900 + s), ("__consumer_offsets", 5))
        ],
    )
    return folder


@pytest.fixture
def folder(empty: str, tmp_path: Path) -> str:
    return str(shutil.copytree(empty, tmp_path / "tables"))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def ago(seconds: float) -> float:
    return NOW.timestamp() - seconds


def sampling(folder: str, checkpoint: Path, name: str = "etl") -> ExternalSampling:
    return ExternalSampling(
        open_for_writing(folder, "test"), [ExternalGroup(name, str(checkpoint))]
    )


def committed(reader: TableReader, group_id: str = "etl") -> list[int]:
    rows = reader.own("group_offsets", ["committed_offset"], [group_id])
    return rows["committed_offset"].to_pylist()


def test_its_lag_and_status_are_those_of_a_group(folder: str, checkpoint: Path) -> None:
    for number in range(10):
        write_batch(checkpoint, number, of_orders(100 + number), at=ago(300 - number * 5))
    external = sampling(folder, checkpoint)
    external.sample()
    assert external.places == {TopicPartition("orders", 0)}
    tables = CoordinatorTables(folder)
    (lag,) = tables.lag("etl")
    assert (lag.group_type, lag.committed_offset, lag.lag) == ("external", 109, 900 - 109)
    (status,) = group_statuses(tables.reader, at=NOW, group_ids=["etl"]).to_pylist()
    assert status["status"] == "STOP"
    assert len(tables.history("etl")) == 10
    assert [row.group_id for row in tables.groups()] == ["kafka", "etl"]
    assert "etl" in [row["group_id"] for row in tables.sql("FROM groups")]
    explanation = explained(tables.reader, "etl", at=NOW)
    assert explanation is not None
    assert explanation.status == "STOP"


def test_a_rewind_is_an_event_and_a_status(folder: str, checkpoint: Path) -> None:
    write_batch(checkpoint, 1, of_orders(500), at=ago(40))
    external = sampling(folder, checkpoint)
    external.sample()
    write_batch(checkpoint, 1, of_orders(20), at=ago(20))
    write_batch(checkpoint, 2, of_orders(60), at=ago(10))
    external.sample()
    tables = CoordinatorTables(folder)
    (event,) = tables.events("etl")
    assert (event.event, event.offset_before, event.offset_after) == ("offset_rewind", 500, 20)
    (status,) = group_statuses(tables.reader, at=NOW, group_ids=["etl"]).to_pylist()
    assert status["status"] == "REWIND"
    explanation = explained(tables.reader, "etl", at=NOW)
    assert explanation is not None
    evidence = explanation.evidence
    assert evidence[0].cause.value == "offset_rewind"
    assert "the checkpoint went back" in evidence[0].text
    assert not any(one.record_ids for one in evidence)
    assert any("external_offsets" in (one.sql or "") for one in evidence)


def test_past_moments(folder: str, checkpoint: Path) -> None:
    write_batch(checkpoint, 1, of_orders(500), at=ago(60))
    write_batch(checkpoint, 2, of_orders(600), at=ago(30))
    sampling(folder, checkpoint).sample()
    version = TableReader(folder).version
    for seconds, wanted in ((70, []), (40, [500]), (10, [600])):
        moment = datetime.fromtimestamp(ago(seconds), timezone.utc)
        # A snapshot of that time.
        apply_micro_batch(folder, progress=[{"updated_at": moment, "next_offset": 5}])
        version += 1
        reader = TableReader(folder, as_of=version)
        assert reader.moment == moment
        assert committed(reader) == wanted


def test_the_history_of_a_span_has_each_row_once(folder: str, checkpoint: Path) -> None:
    write_batch(checkpoint, 1, of_orders(500), at=ago(40))
    external = sampling(folder, checkpoint)
    external.sample()
    write_batch(checkpoint, 1, of_orders(20), at=ago(20))
    external.sample()
    newest = TableReader(folder)
    since = NOW - timedelta(minutes=5)
    past = Past(newest, since=since, group_ids=["etl"], keeps=[OFFSET_COMMITS, GROUP_EVENTS])
    during = [("day", ">=", since.date()), ("record_timestamp", ">=", since)]
    for name, count in (("group_events", 1), ("offset_commits", 2)):
        of_group = [*during, ("group_id", "=", "etl")]
        assert past.newest.read(name, filters=of_group).num_rows == count
        assert newest.read(name, filters=of_group).num_rows == count


def test_batches_of_one_moment_are_one_after_the_other(folder: str, checkpoint: Path) -> None:
    write_batch(checkpoint, 1, of_orders(500), at=ago(30))
    write_batch(checkpoint, 2, of_orders(600), at=ago(30))
    external = sampling(folder, checkpoint)
    external.sample()
    assert committed(TableReader(folder)) == [600]
    write_batch(checkpoint, 3, of_orders(700), at=ago(30))
    external.sample()
    assert committed(TableReader(folder)) == [700]
    # The clock of the store is an hour behind, and then an hour ahead.
    write_batch(checkpoint, 4, of_orders(710), at=ago(3_630))
    external.sample()
    assert committed(TableReader(folder)) == [710]
    write_batch(checkpoint, 5, of_orders(720), at=ago(-3_600))
    external.sample()
    assert committed(TableReader(folder)) == [720]
    assert [one.event for one in CoordinatorTables(folder).events("etl")] == []


def test_pages_of_rewinds_have_each_once(folder: str, tmp_path: Path) -> None:
    def of_topics(offset: int) -> str:
        return json.dumps({"a": {"0": offset, "1": offset}, "b": {"0": offset}})

    checkpoints = [tmp_path / "first", tmp_path / "second"]
    samplings = []
    for number, checkpoint in enumerate(checkpoints):
        write_batch(checkpoint, 1, of_topics(500), at=ago(40))
        samplings.append(sampling(folder, checkpoint, f"etl{number}"))
        samplings[-1].sample()
    client = create_app({"c": Cluster("c", folder)}).test_client()
    write_batch(checkpoints[0], 1, of_topics(5), at=ago(20))
    sampling(folder, checkpoints[0], "etl0").sample()
    first = client.get("/api/v1/events?limit=2&group=etl0").json
    # Another group goes back between the two pages.
    write_batch(checkpoints[1], 1, of_topics(5), at=ago(20))
    sampling(folder, checkpoints[1], "etl1").sample()
    assert first is not None
    second = client.get(
        "/api/v1/events", query_string={"limit": 2, "group": "etl0", "cursor": first["next_cursor"]}
    ).json
    assert second is not None
    seen = [(one["topic"], one["partition"]) for one in first["items"] + second["items"]]
    assert sorted(seen) == [("a", 0), ("a", 1), ("b", 0)]


def test_brokers_do_not_have_them(folder: str, checkpoint: Path) -> None:
    write_batch(checkpoint, 1, of_orders(500), at=ago(5))
    sampling(folder, checkpoint).sample()
    reader = TableReader(folder)
    assert committed(reader) == [500]
    assert committed(reader.of_kafka()) == []
    assert CoordinatorTables(folder).offset_fetch("etl") == []
    assert [row.group_id for row in CoordinatorTables(folder).expiring_offsets()] == ["kafka"]
    assert "etl" not in [row.group_id for row in CoordinatorTables(folder).simple_groups()]


def test_a_group_of_kafka_comes_before_one_of_its_name(folder: str, checkpoint: Path) -> None:
    write_batch(checkpoint, 1, of_orders(500), at=ago(5))
    sampling(folder, checkpoint, "kafka").sample()
    assert committed(TableReader(folder), "kafka") == [7]


def test_a_restart_writes_nothing_twice(folder: str, checkpoint: Path) -> None:
    write_batch(checkpoint, 1, of_orders(500), at=ago(30))
    sampling(folder, checkpoint).sample()
    sampling(folder, checkpoint).sample()
    write_batch(checkpoint, 2, of_orders(400), at=ago(20))
    again = sampling(folder, checkpoint)
    again.sample()
    again.sample()
    rows = DeltaTable(EXTERNAL_OFFSETS.path(folder)).to_pyarrow_table().sort_by("batch_id")
    assert rows["is_repeat"].to_pylist() == [False, False]
    assert rows["committed_offset"].to_pylist() == [500, 400]
    assert rows["offset_before"].to_pylist() == [None, 500]


def test_a_query_that_stopped_days_ago_is_there_at_once_and_stays(
    folder: str, checkpoint: Path
) -> None:
    days = 86_400
    write_batch(checkpoint, 1, of_orders(500), at=ago(9 * days))
    external = sampling(folder, checkpoint)
    external.sample()
    assert committed(TableReader(folder)) == [500]
    # The next day it is written again; its commit stays once in the history.
    external._followed[0].day -= timedelta(days=1)
    external.sample()
    external.sample()
    rows = DeltaTable(EXTERNAL_OFFSETS.path(folder)).to_pyarrow_table()
    assert sorted(rows["is_repeat"].to_pylist()) == [False, True]
    assert committed(TableReader(folder)) == [500]
    tables = CoordinatorTables(folder)
    (lag,) = tables.lag("etl")
    assert lag.commit_age_ms > 8 * days * 1000
    assert len(tables.history("etl")) == 1


def test_it_is_there_days_after_run_has_stopped(folder: str, checkpoint: Path) -> None:
    write_batch(checkpoint, 1, of_orders(500), at=ago(30))
    sampling(folder, checkpoint).sample()
    reader = TableReader(folder)
    reader._opened_at = NOW + timedelta(days=5)
    assert committed(reader) == [500]


def test_a_copied_checkpoint_is_no_rewind(folder: str, checkpoint: Path) -> None:
    for number in range(5):
        write_batch(checkpoint, number, of_orders(100 * number), at=ago(50 - number))
    external = sampling(folder, checkpoint)
    external.sample()
    for number in range(5):
        write_batch(checkpoint, number, of_orders(100 * number), at=ago(20 - number))
    external.sample()
    sampling(folder, checkpoint).sample()
    tables = CoordinatorTables(folder)
    assert len(tables.events("etl")) == 0
    assert len(tables.history("etl")) == 5


def test_a_checkpoint_that_cannot_be_read_does_not_block_others(
    folder: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_batch(tmp_path / "good", 1, of_orders(500), at=ago(5))
    write_batch(tmp_path / "bad", 1, of_orders(500), at=ago(5), version="v7")
    groups = [
        ExternalGroup("bad", str(tmp_path / "bad")),
        ExternalGroup("none", str(tmp_path / "none")),
        ExternalGroup("good", str(tmp_path / "good")),
    ]
    external = ExternalSampling(open_for_writing(folder, "test"), groups)
    with caplog.at_level(logging.INFO, "streaming"):
        external.sample()
        external.sample()
        write_batch(tmp_path / "bad", 1, of_orders(300), at=ago(4))
        external.sample()
    assert committed(TableReader(folder), "good") == [500]
    assert committed(TableReader(folder), "bad") == [300]
    said = [record.getMessage() for record in caplog.records if "external" in record.getMessage()]
    assert len(said) == 3
    assert said[0].startswith("external group bad: cannot read the checkpoint")
    assert said[1].startswith("external group none: ")
    assert said[2] == "external group bad: its checkpoint can be read"


def test_readers_look_for_external_groups_only_after_a_run_with_them(
    tmp_path: Path, checkpoint: Path
) -> None:
    folder = create_tables(tmp_path / "tables")
    apply_micro_batch(folder, progress=[{"updated_at": NOW}])
    write_batch(checkpoint, 1, of_orders(500), at=ago(5))
    sampling(folder, checkpoint).sample()
    assert committed(TableReader(folder)) == []


def test_tables_of_an_earlier_release_get_the_table(folder: str, checkpoint: Path) -> None:
    shutil.rmtree(EXTERNAL_OFFSETS.path(folder))
    assert committed(TableReader(folder)) == []
    write_batch(checkpoint, 1, of_orders(500), at=ago(5))
    sampling(folder, checkpoint).sample()
    assert committed(TableReader(folder)) == [500]
