"""Requests to a real broker about groups, and tables that `verify` refuses to compare with it.

`differential/` compares the broker's answers about random groups with the reference loader.
"""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from coordinator_state.replay.partitioner import partition_for
from streaming.errors import ConfigurationError
from streaming.kafka.group_admin import GroupAdmin, locate_group
from streaming.kafka.offset_fetch import OffsetFetchAnswer
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.verify import verify_cluster
from tests.support.brokers.commits import commit, create_topic
from tests.support.logs.logs import Event, offset_key, offset_value, segment
from tests.support.tables.tables_folder import create_tables

LOG_PARTITIONS = 50
TOPIC = "answered-orders"


@pytest.fixture(scope="module")
def asked_broker(broker: EmbeddedBroker) -> EmbeddedBroker:
    """The shared broker, with the topic of these tests."""
    create_topic(broker, TOPIC, 3)
    return broker


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}-{uuid4()}"


def test_named_partitions_are_answered_known_or_not(
    asked_broker: EmbeddedBroker, group: str
) -> None:
    commit(asked_broker, group, TOPIC, 5)

    with GroupAdmin(asked_broker.bootstrap_servers) as admin:
        answers = admin.offset_fetch({group: [(TOPIC, 0), ("gone", 9)], "none": [(TOPIC, 0)]})

    assert sorted(answers[group], key=lambda answer: str(answer.topic)) == [
        OffsetFetchAnswer(topic=TOPIC, partition=0, committed_offset=5),
        OffsetFetchAnswer(topic="gone", partition=9),
    ]
    assert answers["none"] == [OffsetFetchAnswer(topic=TOPIC, partition=0)]


def test_a_group_is_located(asked_broker: EmbeddedBroker, group: str) -> None:
    location = locate_group(group, asked_broker.bootstrap_servers)

    assert location.log_partition == partition_for(group, LOG_PARTITIONS)
    assert location.log_partitions == LOG_PARTITIONS
    assert location.coordinator == location.leader
    assert f"{location.host}:{location.port}" == asked_broker.bootstrap_servers


@pytest.mark.long
def test_a_broker_that_loads_is_waited_for_and_nothing_is_left_out(
    stoppable_broker: EmbeddedBroker,
) -> None:
    groups = {f"group-{number}" for number in range(1_000)}
    logs: dict[int, list[Event]] = {p: [] for p in range(LOG_PARTITIONS)}
    for group in groups:
        logs[partition_for(group, LOG_PARTITIONS)] += (
            Event(key=offset_key(group, TOPIC, partition), value=offset_value(partition))
            for partition in range(3)
        )
    stoppable_broker.load_logs((p, segment(events)[0]) for p, events in logs.items())
    # Not a moment later: a coordinator that has not begun to load is not among those asked.
    with BrokerAnswers(stoppable_broker.bootstrap_servers) as answering:
        answers = answering.answers()

    assert {key.group_id for key in answers if key.kind == "group"} == groups
    assert sum(key.kind == "offset" for key in answers) == 3 * len(groups)


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"cluster_id": "another"}, "to cluster another"),
        ({"log_partitions": "2"}, "had 2 partitions; now it has 50"),
    ],
)
def test_tables_of_another_log_are_refused(
    asked_broker: EmbeddedBroker, tmp_path: Path, properties: dict[str, str], complaint: str
) -> None:
    with BrokerAnswers(asked_broker.bootstrap_servers) as answering:
        log = answering.describe_log()
    ids = {"cluster_id": log.cluster_id, "topic_id": log.topic_id}
    tables = create_tables(tmp_path, **ids | properties)

    with pytest.raises(ConfigurationError, match=complaint):
        verify_cluster(asked_broker.bootstrap_servers, tables)
