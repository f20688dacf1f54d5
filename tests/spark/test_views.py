"""The views from Spark, against the local reader."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from streaming.tables.reader import TableReader
from streaming.views.definitions import VIEWS
from streaming.views.snapshot import Snapshot
from streaming.views.spark_views import create_views
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def tables(tmp_path: Path) -> str:
    folder = create_tables(tmp_path / "it's here")
    for committed_offset in (5, 6):
        row = {"group_id": "g", "topic": "t", "partition": 0, "committed_offset": committed_offset}
        apply_micro_batch(
            folder, groups=[{"group_id": "g"}], group_offsets=[row], progress=[{"next_offset": 7}]
        )
    return folder


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_has_the_rows_of_the_local_reader(
    spark: SparkSession, tables: str, name: str
) -> None:
    create_views(spark, tables)
    found = spark.table(name).toArrow()
    expected: pa.Table = Snapshot(TableReader(tables)).queried(name)
    assert found.column_names == expected.column_names
    times = [n for n in found.column_names if n.endswith("_age_ms")]
    assert found.drop_columns(times).to_pylist() == expected.drop_columns(times).to_pylist()


def test_the_past_is_shown(spark: SparkSession, tables: str) -> None:
    create_views(spark, tables)
    for as_of, committed_offset in (("1", 5), ("2", 6)):
        reader = spark.read.format("coordinator_state").option("view", "group_lag")
        (row,) = reader.option("as_of", as_of).load(tables).collect()
        assert row.committed_offset == committed_offset


def test_a_view_that_there_is_not(spark: SparkSession, tables: str) -> None:
    create_views(spark, tables)
    reader = spark.read.format("coordinator_state").option("view", "lag")
    with pytest.raises(PySparkException, match="the option view must be one of group_lag"):
        reader.load(tables).collect()
