"""Tables with deletion vectors: the same rows, for every reader and writer of the project."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from streaming.engine.spark import upkeep
from streaming.engine.spark.spark_tables import SparkTables
from streaming.engine.spark.upkeep import enable_deletion_vectors
from streaming.tables import maintenance, replacing
from streaming.tables.deletion_vectors import kept_rows
from streaming.tables.maintenance import maintain_tables
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_OFFSETS, GROUPS, KEY_TABLES
from streaming.tables.writer_epoch import WriterEpoch
from tests.support.tables.every_table import apply_next, assert_undisturbed, create
from tests.support.tables.tables_folder import Crash, start_apply

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.release, pytest.mark.timeout(600)]


def test_tables_with_deletion_vectors(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One folder, because each micro-batch takes seconds; its path has to be escaped in SQL."""
    tables = str(tmp_path / "tables `1`")
    create(tables)
    apply = start_apply(tables, spark=spark)
    enable_deletion_vectors(spark, SparkTables(tables))
    for _ in range(3):
        apply_next(apply)
    assert _has_deletion_vectors(tables)
    _assert_readers_see_no_deleted_row(spark, tables)

    # The other engine goes on, also as with large tables, of which it replaces a part.
    with monkeypatch.context() as large:
        large.setattr(replacing, "SMALL_BYTES", 0)
        apply_next(start_apply(tables))
    assert_undisturbed(tables)
    # A micro-batch is rolled back, and repeated.
    with pytest.raises(Crash):
        apply_next(start_apply(tables, spark=spark, fault=GROUPS.name))
    apply_next(start_apply(tables))
    assert_undisturbed(tables)

    # Compaction makes the vectors superfluous, the next micro-batch adds others.
    monkeypatch.setattr(upkeep, "MOST_FILES", 1)
    apply = start_apply(tables, spark=spark)
    apply_next(apply)
    assert len(DeltaTable(GROUP_OFFSETS.path(tables)).file_uris()) == 1
    assert_undisturbed(tables)
    monkeypatch.undo()
    apply_next(apply)
    assert _has_deletion_vectors(tables)
    _assert_maintenance_keeps_the_needed(tables, monkeypatch)


def _has_deletion_vectors(tables: str) -> bool:
    return bool(kept_rows(DeltaTable(GROUP_OFFSETS.path(tables))))


def _assert_readers_see_no_deleted_row(spark: SparkSession, tables: str) -> None:
    assert_undisturbed(tables)
    reader = TableReader(tables)
    for table in KEY_TABLES:
        rows = reader.read(table.name)
        of_spark = spark.read.format("delta").load(table.path(tables))
        assert reader.dataset(table.name).to_table().num_rows == rows.num_rows == of_spark.count()
        assert set(of_spark.columns) == set(rows.column_names)
    topics = reader.read(GROUP_OFFSETS.name, ["topic"])["topic"].to_pylist()
    for topic in set(topics):
        partitions = reader.read(GROUP_OFFSETS.name, ["partition"], [("topic", "=", topic)])
        assert partitions.num_rows == topics.count(topic)


def _assert_maintenance_keeps_the_needed(tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(GROUP_OFFSETS.path(tables))

    def vectors() -> set[Path]:
        return set(folder.rglob("deletion_vector_*.bin"))

    before = vectors()
    _age(folder, timedelta(days=3))
    _maintain(tables)
    assert vectors() == before, "versions of the last hour need them"
    assert_undisturbed(tables)
    monkeypatch.setattr(maintenance, "UNREFERENCED_KEPT", timedelta(0))
    monkeypatch.setattr(maintenance, "_retention", lambda _opened: timedelta(0))
    _maintain(tables)
    assert len(vectors()) < len(before)
    assert_undisturbed(tables)


def _maintain(tables: str) -> None:
    epoch = WriterEpoch.current(tables)
    done = list(maintain_tables(epoch, timedelta(days=1), now=datetime.now(timezone.utc)))
    assert [tidied.error for tidied in done if tidied.error] == []


def _age(folder: Path, age: timedelta) -> None:
    """Let all files be as old as if nothing had been written for a time."""
    then = time.time() - age.total_seconds()
    for file in folder.rglob("*"):
        if "_delta_log" not in file.parts:
            os.utime(file, (then, then))
