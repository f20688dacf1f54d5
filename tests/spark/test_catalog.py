"""The tables by name in a catalog, against the local reader."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from streaming.errors import ConfigurationError
from streaming.tables.locations import local_path
from streaming.tables.reader import TableReader
from streaming.views.catalog import register, schema_location
from streaming.views.definitions import SELECTS
from streaming.views.snapshot import Snapshot
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATABASE = "monitoring"
NOW = datetime.now(timezone.utc)


def tables_of(folder: Path) -> str:
    tables = create_tables(folder)
    # Not `NOW`, which is from when the suite began: after a quarter of an hour that hangs.
    just_now = datetime.now(timezone.utc)
    simple: dict[str, Any] = {"group_id": "simple", "topic": "t", "committed_offset": 5}
    since = NOW - timedelta(hours=1)
    apply_micro_batch(
        tables,
        groups=[
            {"group_id": "g"},
            {"group_id": "simple", "record_offset": -1},
            {"group_id": "none left", "record_offset": -1},
        ],
        group_offsets=[
            {"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 5},
            *({**simple, "partition": number} for number in range(3)),
        ],
        pending_offsets=[
            {"group_id": "g", "topic": "t", "partition": n, "record_timestamp": at, **more}
            for n, at, more in (
                (0, since, {"producer_epoch": 2}),
                (1, None, {"commit_timestamp": since}),
                (2, just_now, {"producer_id": 8}),
            )
        ],
        progress=[{"next_offset": 7, "updated_at": NOW}],
    )
    return tables


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark
    spark.sql(f"DROP DATABASE IF EXISTS {DATABASE} CASCADE")


def rows(found: pa.Table) -> list[dict[str, Any]]:
    return sorted(found.to_pylist(), key=repr)


@pytest.mark.long
def test_tables_and_views_have_names(session: SparkSession, tmp_path: Path) -> None:
    tables = tables_of(tmp_path / "it's here")
    for _ in range(2):
        register(session, tables, DATABASE)
    snapshot = Snapshot(TableReader(tables))
    for name in ("groups", "group_offsets", *SELECTS):
        expected = snapshot.reader.read(name) if name not in SELECTS else snapshot.queried(name)
        assert rows(session.table(f"{DATABASE}.{name}").toArrow()) == rows(expected), name
    assert session.catalog.currentDatabase() == "default"
    expected_rows = {"simple_groups": 2, "open_transactions": 2, "hanging_transactions": 1}
    assert {name: snapshot.queried(name).num_rows for name in SELECTS} == expected_rows


def test_what_is_written_later_is_seen(session: SparkSession, tmp_path: Path) -> None:
    tables = tables_of(tmp_path / "tables")
    register(session, tables, DATABASE)
    apply_micro_batch(tables, groups=[], progress=[{"next_offset": 8}])
    assert session.table(f"{DATABASE}.groups").count() == 0


def test_tables_of_another_folder_stay(session: SparkSession, tmp_path: Path) -> None:
    register(session, tables_of(tmp_path / "tables"), DATABASE)
    with pytest.raises(ConfigurationError, match=r"is already registered at .*/tables/.*, not at"):
        register(session, tables_of(tmp_path / "others"), DATABASE)


def test_a_schema_is_made_once_and_has_a_location(session: SparkSession) -> None:
    found = [schema_location(session, f"spark_catalog.{DATABASE}") for _ in range(2)]
    assert found[0] == found[1]
    assert found[0].endswith(f"/{DATABASE}.db")


def test_a_schema_has_the_location_that_it_was_created_with(
    session: SparkSession, tmp_path: Path
) -> None:
    session.sql(f"CREATE SCHEMA {DATABASE} LOCATION '{tmp_path / 'tables'}'")
    found = schema_location(session, f"spark_catalog.{DATABASE}")
    assert local_path(found) == tmp_path / "tables"


def test_a_schema_of_a_catalog_that_there_is_not(session: SparkSession) -> None:
    message = r"^--tables nowhere.kafka: \[.*; for a folder of this name, pass ./nowhere.kafka$"
    with pytest.raises(ConfigurationError, match=message):
        schema_location(session, "nowhere.kafka")


def test_a_catalog_that_there_is_not(session: SparkSession, tmp_path: Path) -> None:
    tables = tables_of(tmp_path / "tables")
    with pytest.raises(
        ConfigurationError, match=r"^cannot register .* in nowhere.monitoring: \["
    ) as refused:
        register(session, tables, "nowhere.monitoring")
    assert "\n" not in str(refused.value)
