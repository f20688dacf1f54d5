"""`kafka-transactions.sh` with the lines that are given for a hanging transaction."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

import confluent_kafka
import pytest

from coordinator_state.insight.group_facts import OpenTransaction
from coordinator_state.insight.kafka_commands import (
    TransactionCommands,
    transaction_commands,
)
from coordinator_state.log.record_batch import RecordBatch, read_record_batches
from coordinator_state.model.log import Written
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.partitioner import OFFSETS_TOPIC, partition_for
from streaming.lag.open_transactions import open_transactions
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.local.simulation.tables import simulated_tables
from streaming.tables.filters import Filters
from streaming.tables.reader import TableReader
from tests.support.brokers.commits import create_topic
from tests.support.clients.kafka_tools import run_kafka_tool
from tests.support.eventually import Eventually

pytestmark = pytest.mark.long

LOG_PARTITIONS = 50


def _run(line: str) -> str:
    """Run one command line, with the class that the script starts."""
    script, *arguments = shlex.split(line)
    assert script == "kafka-transactions.sh"
    return run_kafka_tool("org.apache.kafka.tools.TransactionsCommand", *arguments)


@contextmanager
def _hanging(broker: EmbeddedBroker, group: str, topic: str) -> Iterator[confluent_kafka.Producer]:
    """A member whose transaction commits a partition twice and stays open."""
    config = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    producer = confluent_kafka.Producer(
        {**config, "transactional.id": group, "transaction.timeout.ms": 600_000}
    )
    producer.init_transactions(30)
    member = {"group.id": group, "client.id": "fraud", "enable.auto.commit": False}
    with closing(confluent_kafka.Consumer({**config, **member})) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        producer.begin_transaction()
        for offset in (5, 6):
            place = confluent_kafka.TopicPartition(topic, 0, offset)
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([place], metadata)
        yield producer


def _tables(broker: EmbeddedBroker, log_partition: int, folder: Path) -> TableReader:
    """Tables of one log partition, from its log on the broker's disk."""
    # The broker is running, so its newest batches are in the file but perhaps not on the disk.
    (log,) = (broker.log_dir / f"{OFFSETS_TOPIC}-{log_partition}").glob("*.log")
    raw = log.read_bytes()
    *_, last = read_record_batches(raw)
    assert isinstance(last, RecordBatch)
    end = last.records[-1].record_offset + 1
    with simulated_tables(
        str(folder), Semantics.COORDINATOR, log_partitions=LOG_PARTITIONS, history="all"
    ) as tables:
        tables.take([Written(log_partition, raw, 0, end, end)])
    return TableReader(folder)


def test_the_lines_find_the_transaction_and_end_it(
    broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    group = topic = f"hanging-{uuid4()}"
    log_partition = partition_for(group, LOG_PARTITIONS)
    # Groups of other tests may be in its log partition.
    of_group: Filters = [("group_id", "=", group)]
    create_topic(broker, topic)
    with _hanging(broker, group, topic):
        reader = _tables(broker, log_partition, tmp_path / "open")
        ((transaction, (row,)),) = open_transactions(reader, of_group)
        commands = _commands(transaction, broker)
        assert (row["committed_offset"], row["client_id"]) == (6, "fraud")
        assert transaction.first_record_offset < row["record_offset"], "the first is superseded"

        described = _run(commands.describe)
        assert _start_offset(described, transaction.producer_id) == transaction.first_record_offset
        # Its coordinator knows it, so it is not hanging for Kafka.
        assert "ProducerId" in _run(commands.find)
        _run(commands.end)

        def is_ended() -> bool:
            after = _run(commands.describe)
            return _start_offset(after, transaction.producer_id) is None

        eventually(is_ended, 120)
        after = _tables(broker, log_partition, tmp_path / "ended")
        assert open_transactions(after, of_group) == []
        outcomes = after.read("offset_commits", filters=of_group)["outcome"].to_pylist()
        assert outcomes == ["superseded", "aborted"]


def _commands(transaction: OpenTransaction, broker: EmbeddedBroker) -> TransactionCommands:
    return transaction_commands(
        transaction.log_partition, transaction.first_record_offset, broker.bootstrap_servers
    )


def _start_offset(described: str, producer_id: int) -> int | None:
    """The start offset of a producer's transaction, as `describe-producers` prints it."""
    for line in described.splitlines():
        cells = re.split(r"\s+", line.strip())
        if cells[0] == str(producer_id):
            return None if cells[5] == "None" else int(cells[5])
    raise LookupError(f"producer {producer_id} is not in {described!r}")
