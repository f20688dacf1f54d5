"""Kafka clusters that are upgraded to a release with other loader's rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key, encode_value
from streaming.errors import ConfigurationError
from streaming.jvm.jars import KAFKA_VERSION
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from streaming.verify.verify import verify_cluster
from tests.support.brokers.commits import create_topic
from tests.support.brokers.jar_sets import SCALA_VERSION
from tests.support.brokers.running_query import running
from tests.support.eventually import Eventually
from tests.support.logs.logs import Event, offset_key, offset_value, segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

PROPERTIES = {
    "offsets.topic.num.partitions": 1,
    # Members without a client: a session that ends in the test would change the log.
    "group.consumer.max.session.timeout.ms": 1_800_000,
    "group.consumer.session.timeout.ms": 1_800_000,
}
TOPIC = "orders"
MEMBER = {
    "clientId": "c",
    "clientHost": "/h",
    "subscribedTopicNames": [TOPIC],
    "rebalanceTimeoutMs": 1_800_000,
    "classicMemberMetadata": None,
}
# A member without a record of the group's epoch, which only the release decides on.
LOG = [
    Event(key=offset_key("simple", TOPIC, 0), value=offset_value(7)),
    Event(
        key=encode_key(RECORD_TYPES[5], {"groupId": "consumers", "memberId": "m"}),
        value=encode_value(RECORD_TYPES[5], 0, MEMBER),
    ),
]


@contextmanager
def cluster(folder: Path, version: str) -> Iterator[EmbeddedBroker]:
    """A broker with the log in front of it."""
    with EmbeddedBroker(version, folder=folder, properties=PROPERTIES) as broker:
        create_topic(broker, TOPIC)
        broker.create_offsets_topic()
        broker.load_logs([(0, segment(LOG)[0])])
        yield broker


@contextmanager
def upgraded(broker: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    """The same broker with the newest Kafka: its data, its port."""
    broker.stop()
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    with EmbeddedBroker(
        KAFKA_VERSION, folder=broker.folder, port=port, properties=PROPERTIES
    ) as newer:
        newer.wait_until_loaded()
        yield newer


def loaded_by(tables: Path) -> tuple[str, str | None, str]:
    """Semantics, release and state of the one log partition."""
    (row,) = TableReader(tables).read("load_progress").to_pylist() or [dict[str, Any]()]
    return row.get("semantics", ""), row.get("kafka_release"), row.get("state", "")


def epochs(tables: Path) -> list[int | None]:
    where = [("group_id", "==", "consumers")]
    return TableReader(tables).read("groups", filters=where)["group_epoch"].to_pylist()


def is_equal(broker: EmbeddedBroker, tables: Path) -> bool:
    verified = verify_cluster(broker.bootstrap_servers, str(tables), timeout_s=120)
    assert verified.differences == []
    return not verified.behind


@pytest.mark.parametrize(
    ("version", "rules", "epochs_before"),
    [
        pytest.param("4.2.0", ("coordinator", "4.2"), [0], marks=pytest.mark.release),
        (SCALA_VERSION, ("scala", None), []),
    ],
)
def test_a_cluster_that_is_upgraded_while_run_reads_it(
    version: str,
    rules: tuple[str, str | None],
    epochs_before: list[int],
    spark: SparkSession,
    tmp_path: Path,
    eventually: Eventually,
) -> None:
    with (
        cluster(tmp_path / "broker", version) as broker,
        running(broker, spark, tmp_path, eventually) as tables,
    ):
        eventually(lambda: loaded_by(tables) == (*rules, "current"), 120)
        assert epochs(tables) == epochs_before
        assert is_equal(broker, tables)
        with upgraded(broker) as newer:
            eventually(lambda: loaded_by(tables) == ("coordinator", "4.4", "current"), 120)
            assert epochs(tables) == [1]
            if version == SCALA_VERSION:
                # The cluster's group.version is still 0, so its coordinator describes no such
                # group.
                with pytest.raises(ConfigurationError, match="is off in the cluster"):
                    is_equal(newer, tables)
            else:
                assert is_equal(newer, tables)
    history = TableReader(tables).read("offset_commits")["record_offset"].to_pylist()
    assert history == [0], "the first load has the commit already"
