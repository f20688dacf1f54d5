"""A share group of Kafka's Java client, and Kafka's own command about it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.clients.kafka_tools import run_kafka_tool

SHARE_GROUP: Final = "sharers"

_CLIENT: Final = Path(__file__).parents[2] / "integration" / "java" / "ShareConsumer.java"


def read_from_start(admin: KafkaAdminClient) -> None:
    """Let the group read records that were written before its first member came, too."""
    earliest = {"share.auto.offset.reset": "earliest"}
    admin.alter_configs([ConfigResource(ConfigResourceType.GROUP, SHARE_GROUP, earliest)])


def share(broker: EmbeddedBroker, topic: str, acknowledgements: int) -> None:
    """A consumer reads records, and acknowledges each batch at once."""
    arguments = (broker.bootstrap_servers, SHARE_GROUP, topic, str(acknowledgements))
    run_kafka_tool(str(_CLIENT), *arguments)


def share_group_command(broker: EmbeddedBroker, *options: str) -> str:
    """What `kafka-share-groups.sh` prints about the group."""
    return run_kafka_tool(
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        *("--bootstrap-server", broker.bootstrap_servers, "--group", SHARE_GROUP),
        *options,
    )


def described_offsets(broker: EmbeddedBroker) -> list[dict[str, str]]:
    """The share partitions of the group, as Kafka's command prints them."""
    printed = share_group_command(broker, "--describe", "--offsets")
    header, *lines = (line.split() for line in printed.splitlines() if line.strip())
    return [dict(zip(header, line, strict=True)) for line in lines]
