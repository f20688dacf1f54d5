"""The tables and views from Spark, by path and by name, against the local reader."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException

from streaming.errors import ConfigurationError
from streaming.lag.evaluation import Evaluation
from streaming.run.evaluation import StatusEvaluation
from streaming.tables.locations import local_path
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.views.catalog import register, schema_location
from streaming.views.definitions import SELECTS, VIEWS
from streaming.views.snapshot import Snapshot
from streaming.views.spark_views import create_views
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATABASE = "monitoring"


def tables_of(folder: Path) -> str:
    """Two micro-batches; in the second one the committed offset of `g` is 6."""
    tables = create_tables(folder)
    now = datetime.now(timezone.utc)
    simple: dict[str, Any] = {"group_id": "simple", "topic": "t", "committed_offset": 5}
    since = now - timedelta(hours=1)
    for committed_offset in (5, 6):
        apply_micro_batch(
            tables,
            groups=[
                {"group_id": "g"},
                {"group_id": "simple", "record_offset": -1},
                {"group_id": "none left", "record_offset": -1},
            ],
            group_offsets=[
                {"group_id": "g", "topic": "t", "partition": 0}
                | {"committed_offset": committed_offset},
                *({**simple, "partition": number} for number in range(3)),
            ],
            pending_offsets=[
                {"group_id": "g", "topic": "t", "partition": n, "record_timestamp": at, **more}
                for n, at, more in (
                    (0, since, {"producer_epoch": 2}),
                    (1, None, {"commit_timestamp": since}),
                    # It does not hang before the tests end.
                    (2, now + timedelta(hours=1), {"producer_id": 8}),
                )
            ],
            progress=[{"next_offset": 7, "updated_at": now}],
        )
    return tables


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tables that tests only read."""
    return tables_of(tmp_path_factory.mktemp("views") / "it's here")


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session without temporary views."""
    for name in VIEWS:
        spark.catalog.dropTempView(name)
    yield spark
    spark.sql(f"DROP DATABASE IF EXISTS {DATABASE} CASCADE")


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=repr)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_has_the_rows_of_the_local_reader(
    spark: SparkSession, tables: str, name: str
) -> None:
    create_views(spark, tables)
    view_rows = spark.table(name).toArrow()
    expected: pa.Table = Snapshot(TableReader(tables)).queried(name)
    assert view_rows.column_names == expected.column_names
    times = [n for n in view_rows.column_names if n.endswith(("_age_ms", "evaluated_at"))]
    assert rows(view_rows.drop_columns(times)) == rows(expected.drop_columns(times))


def test_a_view_has_the_rows_that_run_keeps(spark: SparkSession, tmp_path: Path) -> None:
    tables = tables_of(tmp_path / "tables")
    evaluation = Evaluation.of(TableReader(tables))
    StatusEvaluation(open_for_writing(tables, "test")).keep(evaluation)
    create_views(spark, tables)
    for name in ("group_lag", "group_status"):
        kept = TableReader(tables).read(name)
        assert kept.num_rows
        assert rows(spark.table(name).toArrow()) == rows(kept), name


def test_the_past_is_shown(spark: SparkSession, tables: str) -> None:
    for as_of, committed_offset in (("1", 5), ("2", 6)):
        reader = spark.read.format("coordinator_state").option("view", "group_lag")
        lags = reader.option("as_of", as_of).load(tables).collect()
        assert [row.committed_offset for row in lags if row.group_id == "g"] == [committed_offset]


def test_a_view_that_there_is_not(spark: SparkSession, tables: str) -> None:
    reader = spark.read.format("coordinator_state").option("view", "lag")
    with pytest.raises(PySparkException, match="the option view must be one of group_lag"):
        reader.load(tables).collect()


@pytest.mark.long
def test_tables_and_views_have_names(session: SparkSession, tmp_path: Path) -> None:
    """Lag and status too, as of the last evaluation."""
    tables = tables_of(tmp_path / "tables")
    evaluation = Evaluation.of(TableReader(tables))
    StatusEvaluation(open_for_writing(tables, "test")).keep(evaluation)
    for _ in range(2):
        register(session, tables, DATABASE)
    snapshot = Snapshot(TableReader(tables))
    for name in ("groups", "group_offsets", "group_lag", "group_status", *SELECTS):
        expected = snapshot.reader.read(name) if name not in SELECTS else snapshot.queried(name)
        assert rows(session.table(f"{DATABASE}.{name}").toArrow()) == rows(expected), name
    assert session.catalog.currentDatabase() == "default"
    expected_rows = {"simple_groups": 2, "open_transactions": 2, "hanging_transactions": 1}
    expected_rows["partition_status"] = evaluation.lags.num_rows
    expected_rows["expiring_offsets"] = 4
    assert {name: snapshot.queried(name).num_rows for name in SELECTS} == expected_rows


@pytest.mark.long
def test_a_registered_folder_shows_later_rows_and_gives_its_name_to_no_other(
    session: SparkSession, tmp_path: Path
) -> None:
    tables = tables_of(tmp_path / "tables")
    register(session, tables, DATABASE)
    apply_micro_batch(tables, groups=[], progress=[{"next_offset": 8}])
    assert session.table(f"{DATABASE}.groups").count() == 0
    with pytest.raises(ConfigurationError, match=r"is already registered at .*/tables/.*, not at"):
        register(session, create_tables(tmp_path / "others"), DATABASE)


@pytest.mark.long
def test_offsets_expire_at_the_same_time_in_every_time_zone(
    session: SparkSession, tmp_path: Path
) -> None:
    """Seven days from this commit, New York's clocks were set back."""
    tables = create_tables(tmp_path / "tables")
    row: dict[str, Any] = {"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 5}
    row["commit_timestamp"] = datetime(2026, 10, 28, 12, tzinfo=timezone.utc)
    apply_micro_batch(
        tables, groups=[{"group_id": "g"}], group_offsets=[row], progress=[{"next_offset": 9}]
    )
    register(session, tables, DATABASE)
    expected = Snapshot(TableReader(tables)).queried("expiring_offsets")
    assert expected["expires_at"].to_pylist() == [row["commit_timestamp"] + timedelta(days=7)]
    before = session.conf.get("spark.sql.session.timeZone") or "UTC"
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        milliseconds = session.sql(
            f"SELECT unix_millis(expires_at) AS at FROM {DATABASE}.expiring_offsets"  # noqa: S608
        ).toArrow()
    finally:
        session.conf.set("spark.sql.session.timeZone", before)
    at = pc.cast(expected["expires_at"], pa.timestamp("ms", "UTC")).cast(pa.int64())
    assert milliseconds["at"].to_pylist() == at.to_pylist()


def test_a_schema_has_the_location_that_it_was_created_with(
    session: SparkSession, tmp_path: Path
) -> None:
    """If it does not exist, it is created in the default location."""
    locations = [schema_location(session, f"spark_catalog.{DATABASE}") for _ in range(2)]
    assert locations[0] == locations[1]
    assert locations[0].endswith(f"/{DATABASE}.db")
    session.sql(f"DROP SCHEMA {DATABASE}")
    session.sql(f"CREATE SCHEMA {DATABASE} LOCATION '{tmp_path / 'tables'}'")
    location = schema_location(session, f"spark_catalog.{DATABASE}")
    assert local_path(location) == tmp_path / "tables"


def test_a_catalog_that_there_is_not(session: SparkSession, tables: str) -> None:
    message = r"^--tables nowhere.kafka: \[.*; for a folder of this name, pass ./nowhere.kafka$"
    with pytest.raises(ConfigurationError, match=message):
        schema_location(session, "nowhere.kafka")
    with pytest.raises(
        ConfigurationError, match=r"^cannot register .* in nowhere.monitoring: \["
    ) as refused:
        register(session, tables, "nowhere.monitoring")
    assert "\n" not in str(refused.value)
