"""Records of a broker's internal topics, as `decode` prints them."""

from __future__ import annotations

from typing import Any

from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.clients.command_line import call, json_lines
from tests.support.clients.kafka_tools import console_consumer_records

Json = dict[str, Any]


def decoded(broker: EmbeddedBroker, topic: str, log_partition: int) -> list[Json]:
    """Keys and values of the records of a log partition; markers are left out."""
    place = ("--topic", topic, "--log-partition", str(log_partition))
    lines = json_lines(call("decode", "--bootstrap-servers", broker.bootstrap_servers, *place))
    return [{"key": line["key"], "value": line["value"]} for line in lines if "key" in line]


def decoded_as_kafka_prints(
    broker: EmbeddedBroker, topic: str, formatter: str, log_partitions: int = 2
) -> list[Json]:
    """All records, after a comparison with what Kafka's formatter prints.

    `broker_properties` gives the other internal topics two log partitions.
    """
    records = []
    for log_partition in range(log_partitions):
        ours = decoded(broker, topic, log_partition)
        printed = console_consumer_records(
            broker.bootstrap_servers, topic, log_partition, formatter
        )
        # Clients of other tests may have written more in between.
        assert printed[: len(ours)] == ours
        records += ours
    return records
