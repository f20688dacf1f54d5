"""Streams of users over the tables, which rest while `run` and its maintenance go on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from streaming.lag.evaluation import Evaluation
from streaming.run.evaluation import StatusEvaluation
from streaming.tables.creation import keep_snapshots, set_properties
from streaming.tables.delta import CHANGE_DATA_FEED
from streaming.tables.maintenance import maintain_tables
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_EVENTS,
    GROUP_LAG,
    OFFSET_COMMITS,
    STATUS_CHANGES,
    Table,
)
from tests.support.tables.every_table import apply_next, copy_of_load
from tests.support.tables.incident_tables import STEP_S, Cluster, Snapshots, moment
from tests.support.tables.tables_folder import create_tables, start_apply

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(600)]

APPENDED = (OFFSET_COMMITS, GROUP_EVENTS, STATUS_CHANGES)
MICRO_BATCHES = 20
"""More than the small files that maintenance leaves alone."""


@dataclass
class Streams:
    """Streams that copy tables, each with a checkpoint."""

    spark: SparkSession
    tables: str
    folder: Path

    def go_on(self, table: Table, **options: str) -> None:
        """Copy the new rows of a table."""
        rows = (
            self.spark.readStream.format("delta").options(**options).load(table.path(self.tables))
        )
        query = (
            rows.writeStream.format("parquet")
            .trigger(availableNow=True)
            .option("checkpointLocation", str(self.folder / f"{table.name}-checkpoint"))
            .start(str(self.folder / table.name))
        )
        query.awaitTermination()

    def copied(self, table: Table) -> list[Any]:
        copy = self.spark.read.parquet(str(self.folder / table.name))
        columns = [name for name in table.schema.names if name != "day"]
        return sorted(map(repr, copy.select(columns).toArrow().to_pylist()))


def stop_and_go(tables: str) -> Snapshots:
    """A group that stops for three minutes."""
    cluster = Cluster(seconds=-60)
    cluster.members("pays")
    for t in range(-60, 241, STEP_S):
        end = cluster.produce("pays", 500)
        if not 0 <= t < 180:
            cluster.commit("pays", end)
        cluster.step()
    return cluster.snapshots(tables)


@pytest.mark.parametrize(
    "retention",
    [timedelta(hours=2), pytest.param(timedelta(0), marks=pytest.mark.release)],
    ids=str,
)
def test_a_stream_that_rested_goes_on(
    spark: SparkSession, tmp_path: Path, retention: timedelta
) -> None:
    """For as long as snapshots are kept; after that it says that files are missing."""
    tables = copy_of_load(tmp_path, 3)
    streams = Streams(spark, tables, tmp_path / "copies")
    apply = start_apply(tables)
    epoch, kept = apply.writer.epoch, StatusEvaluation(apply.writer)
    keep_snapshots(epoch, retention)
    set_properties(epoch, GROUP_LAG, {CHANGE_DATA_FEED: "true"})
    incident = stop_and_go(create_tables(tmp_path / "incident"))
    feed = {"readChangeFeed": "true"}

    def goes_on(seconds: int) -> None:
        """Some micro-batches, and the evaluation of an incident at a moment."""
        for _ in range(MICRO_BATCHES):
            apply_next(apply)
        reader = incident.reader(moment(seconds))
        assert reader is not None
        kept.keep(Evaluation.of(reader, at=moment(seconds)))

    for seconds in (0, 120):
        goes_on(seconds)
    for table in APPENDED:
        streams.go_on(table, skipChangeCommits="true")
    streams.go_on(GROUP_LAG, **feed)
    for seconds in (180, 240):
        goes_on(seconds)
        done = list(maintain_tables(epoch, timedelta(days=7), now=datetime.now(timezone.utc)))
        assert not [maintenance.error for maintenance in done if maintenance.error]

    if not retention:
        with pytest.raises(StreamingQueryException):
            streams.go_on(OFFSET_COMMITS, skipChangeCommits="true")
        return
    for table in APPENDED:
        streams.go_on(table, skipChangeCommits="true")
        rows = TableReader(tables).read(table.name).drop_columns("day").to_pylist()
        assert len(streams.copied(table)) == len(rows) > 0
    streams.go_on(GROUP_LAG, **feed)
    changes = spark.read.parquet(str(streams.folder / GROUP_LAG.name))
    left = changes.filter("_change_type <> 'update_preimage'").groupBy(*GROUP_LAG.key)
    assert len(left.count().collect()) == TableReader(tables).read(GROUP_LAG.name).num_rows
