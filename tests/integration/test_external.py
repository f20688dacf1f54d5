"""The checkpoint of a real Spark query that never commits to Kafka: stopped, and begun again.

`unit/run/test_external_sampling.py` has groups of such checkpoints.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from streaming.external.spark_checkpoint import SparkCheckpoint
from streaming.kafka.partition_offsets import TopicPartition
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.commits import create_topic, produce
from tests.support.clients.spark_consumer import RECORDS_PER_BATCH, consume

pytestmark = [pytest.mark.long, pytest.mark.release]

TOPIC = "read-by-spark"


def test_batches_that_are_done_are_read_with_their_ends(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    create_topic(broker, TOPIC)
    produce(broker, TOPIC, 200)
    folder, last = tmp_path / "spark", None
    for batches, done in ((4, 4), (2, 6), (1, 1)):
        if done == batches:
            shutil.rmtree(folder, ignore_errors=True)
        consume(broker.bootstrap_servers, TOPIC, folder, batches)
        *_, last = SparkCheckpoint(str(folder)).batches_since(last)
        assert last.offsets == {TopicPartition(TOPIC, 0): done * RECORDS_PER_BATCH}
