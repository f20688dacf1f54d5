"""`decode` of `__transaction_state` and `__share_group_state`, beside Kafka's own formatters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka.admin import NewTopic

from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.clients.admin_client import admin_of
from tests.support.clients.installed_command import run_command
from tests.support.clients.kafka_tools import console_consumer_records
from tests.support.clients.share_group import SHARE_GROUP, read_from_start, share

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

Json = dict[str, Any]

TOPIC = "orders"
ACKNOWLEDGEMENTS = 25
LOG_PARTITIONS = 2
"""Of both topics, as `broker_properties` sets them."""
_FORMATTERS = {
    "__transaction_state": "TransactionLogMessageFormatter",
    "__share_group_state": "group.share.ShareGroupStateMessageFormatter",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(folder=tmp_path_factory.mktemp("internal-topics")) as started:
        with admin_of(started) as admin:
            admin.create_topics([NewTopic(TOPIC, 2, 1)], wait_for_metadata=True)
            read_from_start(admin)
        yield started


def _transactions(broker: EmbeddedBroker) -> None:
    """One that is committed twice, one that is aborted, and one that stays ongoing."""
    for transactional_id, ends in (("payer", "cc"), ("auditor", "a"), ("sleeper", " ")):
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": transactional_id}
        )
        producer.init_transactions(30)
        for end in ends:
            producer.begin_transaction()
            for number in range(20):
                producer.produce(TOPIC, str(number).encode(), partition=number % 2)
            producer.flush(30)
            if end == "c":
                producer.commit_transaction(30)
            elif end == "a":
                producer.abort_transaction(30)


def _decoded(broker: EmbeddedBroker, topic: str, log_partition: int) -> list[Json]:
    done = run_command(
        *("decode", "--topic", topic, "--log-partition", str(log_partition)),
        *("--bootstrap-servers", broker.bootstrap_servers),
    )
    assert done.returncode == 0, done.stderr
    lines = map(json.loads, done.stdout.splitlines())
    return [{"key": line["key"], "value": line["value"]} for line in lines if "key" in line]


def _alike(broker: EmbeddedBroker, topic: str) -> list[Json]:
    """The records of all log partitions, which Kafka's formatter prints in the same way."""
    records = []
    for log_partition in range(LOG_PARTITIONS):
        ours = _decoded(broker, topic, log_partition)
        assert ours == console_consumer_records(
            broker.bootstrap_servers, topic, log_partition, _FORMATTERS[topic]
        )
        records += ours
    return records


def test_transactions_are_shown_as_kafka_shows_them(broker: EmbeddedBroker) -> None:
    _transactions(broker)
    records = _alike(broker, "__transaction_state")
    states: dict[str, list[str]] = {}
    for record in records:
        key = record["key"]["data"]["transactionalId"]
        states.setdefault(key, []).append(record["value"]["data"]["transactionStatus"])
    assert states["payer"].count("CompleteCommit") == 2
    assert states["auditor"][-1] == "CompleteAbort"
    assert states["sleeper"][-1] == "Ongoing"


def test_share_groups_are_shown_as_kafka_shows_them(broker: EmbeddedBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(2 * ACKNOWLEDGEMENTS):
        producer.produce(TOPIC, str(number).encode(), partition=number % 2)
    producer.flush(30)
    share(broker, TOPIC, ACKNOWLEDGEMENTS)
    records = _alike(broker, "__share_group_state")
    kinds = [record["key"]["type"] for record in records]
    assert {record["key"]["data"]["groupId"] for record in records} == {SHARE_GROUP}
    assert set(kinds) == {0, 1}, "a snapshot, and updates"
    batches = [b for record in records for b in record["value"]["data"]["stateBatches"]]
    assert {batch["deliveryState"] for batch in batches} >= {0, 2, 4}
