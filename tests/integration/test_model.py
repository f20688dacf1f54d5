"""The model against real brokers of both coordinators: the same answers, the same records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import zip_longest
from typing import Any
from uuid import UUID

import pytest

from coordinator_state.log.record_batch import read_record_batches
from coordinator_state.model.requests import ErrorCode, OffsetCommitRequest, OffsetToCommit
from coordinator_state.model.shard import CoordinatorConfig
from coordinator_state.model.topics import Topic, Topics
from coordinator_state.model.workload import MINUTE_MS, Workload, WorkloadSettings
from coordinator_state.replay.offsets import OffsetKey, Semantics
from streaming.kafka.fetch import LogClient
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.local.simulation.topic import OffsetsTopic
from tests.support.brokers.commits import create_topic
from tests.support.clients.admin_client import admin_of
from tests.support.clients.broker_clients import BrokerClients
from tests.support.clients.comparable_records import records_of
from tests.support.clients.coordinator_scripts import SCRIPTS, TOPICS
from tests.support.clients.scripted_clients import ModelClients, ScriptedClients
from tests.support.eventually import Eventually

pytestmark = pytest.mark.long

VERSIONS = {Semantics.COORDINATOR: "4.2.0", Semantics.SCALA: "3.9.1"}
INITIAL_DELAY_MS = 500
PROPERTIES = {
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": INITIAL_DELAY_MS,
}


@pytest.fixture(scope="module", params=list(Semantics))
def semantics(request: pytest.FixtureRequest) -> Semantics:
    return Semantics(request.param)


@pytest.fixture(scope="module")
def broker_of(
    semantics: Semantics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedBroker]:
    folder = tmp_path_factory.mktemp("broker")
    version = VERSIONS[semantics]
    with EmbeddedBroker(version=version, folder=folder, properties=PROPERTIES) as broker:
        broker.create_offsets_topic()
        for topic in TOPICS:
            create_topic(broker, topic, 10)
        yield broker


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_model_answers_and_writes_as_a_broker_does(
    broker_of: EmbeddedBroker, semantics: Semantics, script: Callable[[ScriptedClients], None]
) -> None:
    servers = broker_of.bootstrap_servers
    with closing(BrokerClients(servers)) as clients, closing(LogClient(servers)) as reader:
        start = reader.high_watermarks()[0]
        real = ScriptedClients(coordinator=clients)
        script(real)
        log = _read(reader, start)
    model = ModelClients(
        semantics,
        config=CoordinatorConfig(group_initial_rebalance_delay_ms=INITIAL_DELAY_MS),
        topics=_topics(broker_of),
    )
    modelled = ScriptedClients(coordinator=model)
    script(modelled)
    for said, expected in zip_longest(modelled.answers, real.answers):
        assert said == expected
    written = records_of(b"".join(model.log.raw), modelled)
    assert written
    # Members of another script's groups time out meanwhile.
    logged = [record for record in records_of(log, real) if _is_of(record, real.groups)]
    for record, expected in zip_longest(written, logged):
        assert record == expected


def _is_of(record: Any, groups: set[str]) -> bool:
    _, record_type, key, *_ = record
    if record_type == "marker":
        return True
    fields = dict(key)
    return fields.get("group", fields.get("groupId")) in groups


def _topics(broker: EmbeddedBroker) -> Topics:
    """The broker's: assignments name topics by their ids."""
    with admin_of(broker) as admin:
        return Topics(
            {
                topic["name"]: Topic(UUID(str(topic["topic_id"])), len(topic["partitions"]))
                for topic in admin.describe_topics(list(TOPICS))
            }
        )


def _read(reader: LogClient, start: int) -> bytes:
    log = bytearray()
    while start < reader.high_watermarks()[0]:
        answer = reader.fetch({0: start})[0]
        log += answer.records
        *_, last = read_record_batches(answer.records)
        assert last.last_offset is not None
        start = last.last_offset + 1
    return bytes(log)


def test_a_live_coordinator_of_kafka_4_loads_what_was_produced_with_its_next_record(
    broker_of: EmbeddedBroker, semantics: Semantics, eventually: Eventually
) -> None:
    create_topic(broker_of, "t")
    is_noticed = semantics is Semantics.COORDINATOR
    workload = Workload(WorkloadSettings(groups=3, log_partitions=1, transactional_share=0))
    workload.run(MINUTE_MS)
    with closing(BrokerClients(broker_of.bootstrap_servers)) as clients:

        def answer_to_a_commit(offset: int) -> ErrorCode:
            offsets = [OffsetToCommit(topic="t", partition=0, committed_offset=offset)]
            request = OffsetCommitRequest(group_id="live", offsets=offsets, version=8)
            (answer,) = clients.commit_offsets(request).values()
            return answer

        assert answer_to_a_commit(1) is ErrorCode.NONE
        with OffsetsTopic(broker_of.bootstrap_servers) as topic:
            topic.append((part.log_partition, part.batches) for part in workload.take())
        first = answer_to_a_commit(2)
        assert first is (ErrorCode.NOT_COORDINATOR if is_noticed else ErrorCode.NONE)
        eventually(lambda: answer_to_a_commit(3) is ErrorCode.NONE, 120)
        expected = {
            key: offset.committed_offset for key, offset in workload.coordinators[0].offsets.items()
        }
        answers = {
            OffsetKey(group_id, *place): offset.committed_offset
            for group_id in workload.coordinators[0].groups
            for place, offset in clients.fetch_offsets(group_id)[1].items()
        }
    assert expected
    assert answers == (expected if is_noticed else {})
