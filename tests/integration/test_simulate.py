"""A simulated workload in the topic of a real broker, and in front of one."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from coordinator_state.loader import ReferenceLoader
from coordinator_state.model.workload import MINUTE_MS, Workload, WorkloadSettings
from coordinator_state.record_batch import read_record_batches
from streaming.answers.broker_answers import BrokerAnswers
from streaming.answers.model_answers import model_answers
from streaming.answers.verification import compare
from streaming.kafka.fetch import LogClient
from streaming.simulation.topic import OffsetsTopic
from tests.command_line import call, json_lines
from tests.integration.conftest import FreshBroker

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
    # What cannot be produced is refused before anything is.
    arguments = ("simulate", "--bootstrap-servers", broker.bootstrap_servers)
    refused = call(*arguments, exit_code=2)
    assert "--transactional 0" in refused.stderr
    done = call(*arguments, "--transactional", "0", "--records", "300", exit_code=2)
    assert "simulate as many with --log-partitions" in done.stderr
    done = call(
        *(*arguments, "--transactional", "0", "--records", "300", "--log-partitions", "3"),
        *("--output", "json"),
    )
    (told,) = json_lines(done)
    assert told["records"] >= 300


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
