"""The least ACLs of docs/security.md: they suffice, and whichever is missing is named.

The commands of docs/acls.md grant exactly these.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient
from kafka.errors import GroupAuthorizationFailedError
from kafka.structs import OffsetAndMetadata, TopicPartition

from coordinator_state.insight.lag import PRESENT
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.errors import ConfigurationError
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.log_offsets import UNAUTHORISED
from streaming.tables.reader import TableReader
from streaming.verify.verify import verify_cluster
from tests.support.brokers.commits import admin_of
from tests.support.brokers.running_query import run_to_end
from tests.support.brokers.secured_broker import READ_LOG, SecuredBroker
from tests.support.clients.kafka_tools import run_kafka_tool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

READER = "reader"
GROUP = "acl-group"
TOPICS = ("acl-orders", "acl-payments")

DESCRIBE_LOG = ("describe", "topic", OFFSETS_TOPIC)
ORDERS, PAYMENTS = (("describe", "topic", topic) for topic in TOPICS)
GROUPS = ("describe", "group", "*")
INTERNAL = (OFFSETS_TOPIC, "__transaction_state", "__share_group_state")
ACL_COMMAND = "org.apache.kafka.tools.AclCommand"


@pytest.fixture(scope="module")
def committed(secured_broker: SecuredBroker) -> Iterator[SecuredBroker]:
    """A group with an offset of each topic, the only group there is."""
    topics = {name: {"num_partitions": 1, "replication_factor": 1} for name in TOPICS}
    with admin_of(secured_broker.broker) as admin:
        # Other tests share the broker; their groups have offsets of topics without these ACLs.
        if others := [group["group_id"] for group in admin.list_groups()]:
            admin.delete_groups(others)
        admin.create_topics(topics, wait_for_metadata=True)
        commit(admin)
        yield secured_broker
        admin.delete_groups([GROUP])
        admin.delete_topics(list(TOPICS))


def commit(admin: KafkaAdminClient) -> None:
    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(0, "", -1) for topic in TOPICS}
    admin.alter_group_offsets(GROUP, offsets)


def test_the_least_acls_suffice_and_one_that_is_missing_is_named(
    committed: SecuredBroker, spark: SparkSession, tmp_path: Path
) -> None:
    address, login = committed.tls_address, committed.plain(READER)

    def run() -> dict[str, str]:
        """Run to the end of the log; the state of each of the topics in its newest sample."""
        tables = run_to_end(
            *(committed.broker, spark, tmp_path),
            bootstrap_servers=address,
            kafka=login,
            lag_interval="1 second",
            max_restarts=0,
        )
        samples = TableReader(tables).read("log_offsets").sort_by("sampled_at")
        newest = {row["topic"]: row["state"] for row in samples.to_pylist()}
        return {topic: newest[topic] for topic in TOPICS}

    def verify() -> bool:
        return verify_cluster(address, str(tmp_path / "tables"), kafka=login).is_equal

    # Read has Describe within it, for Kafka's own authorizer.
    with committed.allowing(READER, READ_LOG, ORDERS, PAYMENTS):
        assert run() == dict.fromkeys(TOPICS, PRESENT)
        with pytest.raises(ConfigurationError, match=r"ACL Describe on the groups .*on group \*"):
            verify()
        with (
            closing(
                KafkaAdminClient(bootstrap_servers=address, **kafka_client_config(login))
            ) as admin,
            pytest.raises(GroupAuthorizationFailedError),
        ):
            commit(admin)

    with committed.allowing(READER, DESCRIBE_LOG, ORDERS, PAYMENTS, GROUPS):
        assert verify()
    with (
        committed.allowing(READER, DESCRIBE_LOG, ORDERS, GROUPS),
        pytest.raises(ConfigurationError, match=f"ACL Describe on topic {TOPICS[1]}"),
    ):
        verify()
    with (
        committed.allowing(READER, ORDERS, PAYMENTS, GROUPS),
        pytest.raises(ConfigurationError, match=f"Describe on topic {OFFSETS_TOPIC}"),
    ):
        verify()

    with committed.allowing(READER, READ_LOG, ORDERS):
        assert run() == {TOPICS[0]: PRESENT, TOPICS[1]: UNAUTHORISED}

    with admin_of(committed.broker) as admin:
        commit(admin)
    for acls in ((DESCRIBE_LOG, ORDERS, PAYMENTS), (ORDERS, PAYMENTS)):
        with (
            committed.allowing(READER, *acls),
            pytest.raises(
                ConfigurationError, match=f"ACLs Read and Describe on topic {OFFSETS_TOPIC}"
            ),
        ):
            run()


def test_the_commands_of_the_page_grant_them(
    secured_broker: SecuredBroker, repository: Path
) -> None:
    page = (repository / "docs" / "acls.md").read_text().replace("\\\n", "")
    commands = re.findall(r"^\$ kafka-acls\.sh (.*)$", page, re.MULTILINE)
    with secured_broker.without_acls_afterwards(READER):
        for command in commands:
            text = (
                command.replace("broker:9093", secured_broker.broker.bootstrap_servers)
                .replace("--command-config admin.properties", "")
                .replace("User:materializer", f"User:{READER}")
            )
            run_kafka_tool(ACL_COMMAND, *shlex.split(text))
        assert secured_broker.acls_of(READER) == {
            *(
                (operation, "topic", topic)
                for operation in ("read", "describe")
                for topic in INTERNAL
            ),
            ("describe", "topic", "*"),
            GROUPS,
        }
