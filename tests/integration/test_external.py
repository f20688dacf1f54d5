"""A real Spark query that never commits to Kafka, as a group: stopped, and rewound."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streaming.local.broker.embedded import EmbeddedBroker
from streaming.verify.verify import verify_cluster
from streaming.views.coordinator_tables import CoordinatorTables
from tests.support.brokers.commits import create_topic, produce
from tests.support.brokers.running_query import running
from tests.support.clients.spark_consumer import consume
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.release, pytest.mark.spark]
TOPIC = "read-by-spark"


def test_a_spark_query_is_a_group(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    checkpoint = tmp_path / "spark"
    create_topic(broker, TOPIC)
    produce(broker, TOPIC, 200)
    named = (f"etl=spark:{checkpoint}",)
    with running(broker, spark, tmp_path, eventually, external=named) as folder:

        def lags() -> dict[int, int | None]:
            rows = CoordinatorTables(folder).lag("etl")
            return {row.committed_offset or 0: row.lag for row in rows if row.partition == 0}

        ended = consume(broker.bootstrap_servers, TOPIC, checkpoint, batches=4)
        assert ended[0] == 80
        eventually(lambda: lags() == {80: 120}, 120)
        # It has stopped, and records are still produced.
        produce(broker, TOPIC, 30)
        eventually(lambda: lags() == {80: 150}, 120)
        # It goes on from its checkpoint.
        assert consume(broker.bootstrap_servers, TOPIC, checkpoint, batches=2)[0] == 120
        eventually(lambda: lags() == {120: 110}, 120)
        # Somebody deletes the checkpoint: it begins again.
        shutil.rmtree(checkpoint)
        assert consume(broker.bootstrap_servers, TOPIC, checkpoint, batches=1)[0] == 20
        eventually(lambda: lags() == {20: 210}, 120)
        tables = CoordinatorTables(folder)
        (event,) = tables.events("etl", event="offset_rewind")
        assert (event.partition, event.offset_before, event.offset_after) == (0, 120, 20)
        (status,) = tables.status("etl")
        assert (status.group_type, status.status) == ("external", "REWIND")
        assert tables.explain("etl").evidence[0].cause.value == "offset_rewind"
        # No broker knows the group, and the tables do not claim that.
        verification = verify_cluster(broker.bootstrap_servers, str(folder))
        assert verification.is_equal
