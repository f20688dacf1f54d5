"""External groups: their offsets are rows of the tables of groups, as of every moment."""

from __future__ import annotations

import json
import logging
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from streaming.api.app import create_app
from streaming.external.external_group import ExternalGroup
from streaming.kafka.partition_offsets import TopicPartition
from streaming.lag.evaluation import Evaluation
from streaming.run.external_sampling import ExternalSampling
from streaming.served.cluster import Cluster
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import EXTERNAL_OFFSETS, GROUP_EVENTS, OFFSET_COMMITS
from streaming.views.coordinator_tables import CoordinatorTables
from streaming.views.diagnosis import explained
from tests.support.browser.html import client_of
from tests.support.tables.sample_rows import offset_row, sample
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
        group_offsets=[offset_row("kafka", 7, NOW, "orders")],
    )
    samples = [
        sample(NOW + timedelta(seconds=s), end, topic)
        for s in (-400, -5, 0)
        for topic, end in (("orders", 900 + s), ("__consumer_offsets", 5))
    ]
    write_rows(folder, "log_offsets", samples)
    return folder


@pytest.fixture
def folder(empty: str, tmp_path: Path) -> str:
    return str(shutil.copytree(empty, tmp_path / "tables"))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def write(checkpoint: Path, number: int, offset: int, seconds_ago: float, **options: str) -> None:
    """A batch that read `orders` up to an offset."""
    write_batch(checkpoint, number, of_orders(offset), at=ago(seconds_ago), **options)


def ago(seconds: float) -> float:
    return NOW.timestamp() - seconds


def sampling(folder: str, checkpoint: Path, name: str = "etl") -> ExternalSampling:
    group = ExternalGroup(name, str(checkpoint))
    return ExternalSampling(open_for_writing(folder, "test"), [group])


def committed(reader: TableReader, group_id: str = "etl") -> list[int]:
    rows = reader.own("group_offsets", ["committed_offset"], [group_id])
    return rows["committed_offset"].to_pylist()


def test_it_is_a_group_that_brokers_do_not_have(folder: str, checkpoint: Path) -> None:
    for number in range(10):
        write(checkpoint, number, 100 + number, 300 - number * 5)
    external = sampling(folder, checkpoint)
    external.sample()
    assert external.places == {TopicPartition("orders", 0)}
    tables = CoordinatorTables(folder)
    (lag,) = tables.lag("etl")
    assert (lag.group_type, lag.committed_offset, lag.lag) == ("external", 109, 900 - 109)
    assert status_and_explanation(tables) == ("STOP", "STOP")
    assert len(tables.history("etl")) == 10
    assert [row.group_id for row in tables.groups()] == ["kafka", "etl"]
    assert "etl" in [row["group_id"] for row in tables.sql("FROM groups")]
    assert committed(tables.reader.of_kafka()) == []
    assert tables.offset_fetch("etl") == []
    assert [row.group_id for row in tables.expiring_offsets()] == ["kafka"]
    assert "etl" not in [row.group_id for row in tables.simple_groups()]


def status_and_explanation(tables: CoordinatorTables) -> tuple[str, str]:
    (status,) = Evaluation.of(tables.reader, at=NOW, group_ids=["etl"]).statuses.to_pylist()
    explanation = explained(tables.reader, "etl", at=NOW)
    assert explanation is not None
    return status["status"], explanation.status


def test_a_rewind_is_an_event_and_a_status(folder: str, checkpoint: Path) -> None:
    write(checkpoint, 1, 500, 40)
    external = sampling(folder, checkpoint)
    external.sample()
    write(checkpoint, 1, 20, 20)
    external.sample()
    tables = CoordinatorTables(folder)
    (event,) = tables.events("etl")
    assert (event.event, event.offset_before, event.offset_after) == ("offset_rewind", 500, 20)
    newest = tables.reader
    since = NOW - timedelta(minutes=5)
    past = newest.with_history(since=since, group_ids=["etl"], keeps=[OFFSET_COMMITS, GROUP_EVENTS])
    etl_filter = ("group_id", "=", "etl")
    during = [("day", ">=", since.date()), ("record_timestamp", ">=", since)]
    for name, count in (("group_events", 1), ("offset_commits", 2)):
        for reader in (past, newest):
            assert reader.read(name, filters=[*during, etl_filter]).num_rows == count
    write(checkpoint, 2, 60, 10)
    external.sample()
    tables = CoordinatorTables(folder)
    assert status_and_explanation(tables) == ("REWIND", "REWIND")
    explanation = explained(tables.reader, "etl", at=NOW)
    assert explanation is not None
    evidence = explanation.evidence
    assert evidence[0].cause.value == "offset_rewind"
    assert "the checkpoint went back" in evidence[0].text
    assert not any(fact.record_ids for fact in evidence)
    assert any("external_offsets" in (fact.sql or "") for fact in evidence)


def test_past_moments(folder: str, checkpoint: Path) -> None:
    write(checkpoint, 1, 500, 60)
    write(checkpoint, 2, 600, 30)
    sampling(folder, checkpoint).sample()
    version = TableReader(folder).version
    for seconds, offsets in ((70, []), (40, [500]), (10, [600])):
        moment = datetime.fromtimestamp(ago(seconds), timezone.utc)
        # A snapshot of that time.
        apply_micro_batch(folder, progress=[{"updated_at": moment, "next_offset": 5}])
        version += 1
        reader = TableReader(folder, as_of=version)
        assert reader.moment == moment
        assert committed(reader) == offsets


def test_batches_follow_each_other_whatever_their_times(folder: str, checkpoint: Path) -> None:
    """Times are equal, or those of a store whose clock is an hour behind or ahead."""
    external = sampling(folder, checkpoint)
    write(checkpoint, 0, 400, 30)
    for number, seconds in enumerate((30, 30, 3_630, -3_600), start=1):
        write(checkpoint, number, 500 + number, seconds)
        external.sample()
        assert committed(TableReader(folder)) == [500 + number]
    assert not list(CoordinatorTables(folder).events("etl"))


def test_pages_of_rewinds_have_each_once(folder: str, tmp_path: Path) -> None:
    def go_to(offset: int, seconds: float, *names: str) -> None:
        offsets = json.dumps({"a": {"0": offset, "1": offset}, "b": {"0": offset}})
        for name in names:
            write_batch(tmp_path / name, 1, offsets, at=ago(seconds))
            sampling(folder, tmp_path / name, name).sample()

    def page(**cursor: str) -> Any:
        query: dict[str, Any] = {"limit": 2, "group": "etl", **cursor}
        return client.get("/api/v1/events", params=query).json()

    go_to(500, 40, "etl", "other")
    client = client_of(create_app({"c": Cluster("c", folder)}))
    go_to(5, 20, "etl")
    first = page()
    # Another group goes back between the two pages.
    go_to(5, 20, "other")
    second = page(cursor=first["next_cursor"])
    events = [(event["topic"], event["partition"]) for event in first["items"] + second["items"]]
    assert sorted(events) == [("a", 0), ("a", 1), ("b", 0)]


def test_a_group_of_kafka_comes_before_one_of_its_name(folder: str, checkpoint: Path) -> None:
    write(checkpoint, 1, 500, 5)
    sampling(folder, checkpoint, "kafka").sample()
    assert committed(TableReader(folder), "kafka") == [7]


def test_a_restart_writes_nothing_twice(folder: str, checkpoint: Path) -> None:
    """A copy of the checkpoint has other times, and is no rewind."""
    for seconds in (30, 20):
        write(checkpoint, 1, 500, seconds)
        sampling(folder, checkpoint).sample()
    assert not list(CoordinatorTables(folder).events("etl"))
    write(checkpoint, 2, 400, 10)
    again = sampling(folder, checkpoint)
    again.sample()
    again.sample()
    rows = external_rows(folder)
    names = ("committed_offset", "offset_before", "is_repeat")
    assert [tuple(row[name] for name in names) for row in rows] == [
        *((500, None, False), (400, 500, False)),
    ]


def external_rows(folder: str) -> list[dict[str, Any]]:
    rows = DeltaTable(EXTERNAL_OFFSETS.path(folder)).to_pyarrow_table()
    return rows.sort_by([("batch_id", "ascending"), ("is_repeat", "ascending")]).to_pylist()


def test_a_query_that_stopped_days_ago_is_there_at_once_and_stays(
    folder: str, checkpoint: Path
) -> None:
    days = 86_400
    write(checkpoint, 1, 500, 9 * days)
    external = sampling(folder, checkpoint)
    external.sample()
    reader = TableReader(folder)
    assert committed(reader) == [500]
    # `run` has stopped, too.
    reader._opened_at = NOW + timedelta(days=5)
    assert committed(reader) == [500]
    # The next day it is written again; its commit stays once in the history.
    external._followed[0].day -= timedelta(days=1)
    external.sample()
    external.sample()
    assert [row["is_repeat"] for row in external_rows(folder)] == [False, True]
    assert committed(TableReader(folder)) == [500]
    (lag,) = CoordinatorTables(folder).lag("etl")
    assert (lag.commit_age_ms or 0) > 8 * days * 1000
    assert len(CoordinatorTables(folder).history("etl")) == 1


def test_a_checkpoint_that_cannot_be_read_does_not_block_others(
    folder: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = tmp_path / "bad"
    write(tmp_path / "good", 1, 500, 5)
    write(bad, 1, 500, 5, version="v7")
    groups = [ExternalGroup(name, str(tmp_path / name)) for name in ("bad", "none", "good")]
    external = ExternalSampling(open_for_writing(folder, "test"), groups)
    with caplog.at_level(logging.INFO, "streaming"):
        external.sample()
        external.sample()
        write(bad, 1, 300, 4)
        external.sample()
    assert committed(TableReader(folder), "good") == [500]
    assert committed(TableReader(folder), "bad") == [300]
    lines = [record.getMessage() for record in caplog.records if "external" in record.getMessage()]
    assert len(lines) == 3
    assert lines[0].startswith("external group bad: cannot read the checkpoint")
    assert lines[1].startswith("external group none: ")
    assert lines[2] == "external group bad: its checkpoint can be read"


def test_tables_without_external_groups(folder: str, tmp_path: Path, checkpoint: Path) -> None:
    """An earlier release has not made the table; readers look for it only if a run names groups."""
    shutil.rmtree(EXTERNAL_OFFSETS.path(folder))
    assert committed(TableReader(folder)) == []
    never = create_tables(tmp_path / "never")
    apply_micro_batch(never, progress=[{"updated_at": NOW}])
    write(checkpoint, 1, 500, 5)
    for tables, offsets in ((folder, [500]), (never, [])):
        sampling(tables, checkpoint).sample()
        assert committed(TableReader(tables)) == offsets
