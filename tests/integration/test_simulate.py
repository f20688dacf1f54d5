"""A simulated workload in the topic of a real broker, and in front of one."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest
from kafka.admin import NewTopic

from coordinator_state.log.record_batch import read_record_batches
from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.requests import OffsetCommitRequest, OffsetToCommit
from coordinator_state.model.workload import MINUTE_MS, Workload, WorkloadSettings
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import OffsetKey
from coordinator_state.replay.partitioner import partition_for
from streaming.kafka.fetch import LogClient
from streaming.local.simulation.topic import OffsetsTopic
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.model_answers import model_answers
from streaming.verify.verification import compare
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.clients.admin_client import admin_of
from tests.support.clients.broker_clients import BrokerClients
from tests.support.clients.command_line import call, json_lines
from tests.support.eventually import Eventually

pytestmark = pytest.mark.long

SETTINGS = WorkloadSettings(groups=12, log_partitions=3, rebalances_per_hour=60, stops_per_hour=6)
PROPERTIES = {"offsets.topic.num.partitions": 3}


def test_a_workload_is_produced(fresh_broker: FreshBroker) -> None:
    """Whoever reads the topic finds the coordinators' offsets, at other record offsets."""
    broker = fresh_broker(properties=PROPERTIES)
    broker.create_offsets_topic()
    workload = Workload(replace(SETTINGS, transactional_share=0))
    workload.run(MINUTE_MS)
    with OffsetsTopic(broker.bootstrap_servers) as topic:
        written = [(part.log_partition, part.batches) for part in workload.take()]
        assert topic.append(written) == workload.records
    with closing(LogClient(broker.bootstrap_servers)) as client:
        fetched = client.fetch(client.earliest_offsets())
    for log_partition, answer in fetched.items():
        loader = ReferenceLoader(strict=True)
        loader.load(read_record_batches(answer.records))
        coordinator = workload.coordinators[log_partition]
        assert {key: o.committed_offset for key, o in loader.offsets.items()} == {
            key: o.committed_offset for key, o in coordinator.offsets.items()
        }
        assert set(loader.groups) == set(coordinator.groups)


@pytest.mark.parametrize("workload", ["groups", "commits"])
def test_the_defaults_of_the_command_fit_the_cluster(
    fresh_broker: FreshBroker, workload: str
) -> None:
    """No transactions, and as many log partitions as there are: groups are where it looks."""
    broker = fresh_broker(properties=PROPERTIES)
    arguments = (
        *("simulate", "--bootstrap-servers", broker.bootstrap_servers),
        *("--records", "300", "--groups", "20", "--workload", workload),
    )
    # The first request has the broker create the topic.
    # What cannot be produced is refused before anything is.
    refused = call(*arguments, "--log-partitions", "50", exit_code=2)
    assert "has 3 partitions: remove --log-partitions" in refused.stderr
    if workload == "groups":
        refused = call(*arguments, "--transactional", "0.1", exit_code=2)
        assert "--transactional 0" in refused.stderr
    with closing(LogClient(broker.bootstrap_servers)) as client:
        assert client.earliest_offsets() == client.high_watermarks()
    (told,) = json_lines(call(*arguments, "--output", "json"))
    assert told["records"] >= 300
    assert told["log_partitions"] == PROPERTIES["offsets.topic.num.partitions"]
    with closing(LogClient(broker.bootstrap_servers)) as client:
        fetched = client.fetch(client.earliest_offsets())
    loaded = ReferenceLoader(strict=True)
    for log_partition, answer in fetched.items():
        loader = ReferenceLoader(strict=True)
        loader.load(read_record_batches(answer.records))
        assert loader.pending == {}
        assert {partition_for(key.group_id, 3) for key in loader.offsets} <= {log_partition}
        loaded.offsets.update(loader.offsets)
    assert len({key.group_id for key in loaded.offsets}) > 10


@pytest.mark.parametrize(("version", "is_noticed"), [("4.2.0", True), ("3.9.1", False)])
def test_a_live_coordinator_of_kafka_4_loads_what_was_produced_with_its_next_record(
    fresh_broker: FreshBroker, eventually: Eventually, version: str, is_noticed: bool
) -> None:
    broker = fresh_broker(version=version, properties={"offsets.topic.num.partitions": 1})
    broker.create_offsets_topic()
    with admin_of(broker) as admin:
        admin.create_topics([NewTopic("t", 1, 1)], wait_for_metadata=True)
    workload = Workload(WorkloadSettings(groups=3, log_partitions=1, transactional_share=0))
    workload.run(MINUTE_MS)
    with closing(BrokerClients(broker.bootstrap_servers)) as clients:

        def answer_to_a_commit(offset: int) -> ErrorCode:
            offsets = [OffsetToCommit(topic="t", partition=0, committed_offset=offset)]
            request = OffsetCommitRequest(group_id="live", offsets=offsets, version=8)
            (answer,) = clients.commit_offsets(request).values()
            return answer

        assert answer_to_a_commit(1) is ErrorCode.NONE
        with OffsetsTopic(broker.bootstrap_servers) as topic:
            topic.append((part.log_partition, part.batches) for part in workload.take())
        first = answer_to_a_commit(2)
        assert first is (ErrorCode.NOT_COORDINATOR if is_noticed else ErrorCode.NONE)
        eventually(lambda: answer_to_a_commit(3) is ErrorCode.NONE)
        expected = {
            key: offset.committed_offset for key, offset in workload.coordinators[0].offsets.items()
        }
        found = {
            OffsetKey(group_id, *place): offset.committed_offset
            for group_id in workload.coordinators[0].groups
            for place, offset in clients.fetch_offsets(group_id)[1].items()
        }
        assert found == (expected if is_noticed else {})
    assert expected


def test_a_broker_that_loads_it_answers_as_the_model(
    fresh_broker: FreshBroker,
) -> None:
    broker = fresh_broker(properties=PROPERTIES)
    broker.create_offsets_topic()
    # Recent, so that the broker expires nothing; sessions last for half an hour.
    workload = Workload(SETTINGS)
    workload.run(10 * MINUTE_MS)
    broker.load_logs(workload.logs())
    broker.wait_until_loaded()
    with BrokerAnswers(broker.bootstrap_servers) as asked:
        found = asked.answers()
    # The broker has none of the topics, and leaves them out of assignments.
    expected = model_answers(workload.coordinators.values(), {})
    verification = compare(found, expected, found)
    assert verification.differences == []
    assert verification.counts["offset"] > 50
    assert verification.counts["member"] > 10
