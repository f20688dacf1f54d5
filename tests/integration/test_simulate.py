"""A simulated workload in the topic of a real broker, and in front of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing

import pytest

from coordinator_state.log.record_batch import read_record_batches
from coordinator_state.model.workload import MINUTE_MS, Workload, WorkloadSettings
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.partitioner import partition_for
from streaming.kafka.fetch import LogClient
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.model_answers import model_answers
from streaming.verify.verification import compare
from tests.support.clients.command_line import call, json_lines

pytestmark = pytest.mark.long

LOG_PARTITIONS = 3
SETTINGS = WorkloadSettings(
    groups=12, log_partitions=LOG_PARTITIONS, rebalances_per_hour=60, stops_per_hour=6
)


@pytest.fixture(scope="module")
def small_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker with few log partitions, which these tests write to one after the other."""
    properties = {"offsets.topic.num.partitions": LOG_PARTITIONS}
    folder = tmp_path_factory.mktemp("simulate")
    with EmbeddedBroker(folder=folder, properties=properties) as broker:
        yield broker


def high_watermarks(broker: EmbeddedBroker) -> dict[int, int]:
    with closing(LogClient(broker.bootstrap_servers)) as client:
        return dict(client.high_watermarks())


def loaded_from(
    broker: EmbeddedBroker, starts: Mapping[int, int]
) -> Iterator[tuple[int, ReferenceLoader]]:
    """What a loader makes of each log partition from an offset on."""
    with closing(LogClient(broker.bootstrap_servers)) as client:
        fetched = client.fetch(starts)
    for log_partition, answer in fetched.items():
        loader = ReferenceLoader(strict=True)
        loader.load(read_record_batches(answer.records))
        yield log_partition, loader


@pytest.mark.parametrize("workload", ["groups", "commits"])
def test_the_defaults_of_the_command_fit_the_cluster(
    small_broker: EmbeddedBroker, workload: str
) -> None:
    """No transactions, and as many log partitions as there are: groups are where it looks."""
    arguments = (
        *("simulate", "--bootstrap-servers", small_broker.bootstrap_servers),
        *("--records", "300", "--groups", "20", "--workload", workload),
    )
    # The first request has the broker create the topic.
    # What cannot be produced is refused before anything is.
    refused = call(*arguments, "--log-partitions", "50", exit_code=2)
    assert "has 3 partitions: remove --log-partitions" in refused.stderr
    starts = high_watermarks(small_broker)
    if workload == "groups":
        assert set(starts.values()) == {0}
        refused = call(*arguments, "--transactional", "0.1", exit_code=2)
        assert "--transactional 0" in refused.stderr
        assert high_watermarks(small_broker) == starts
    (report,) = json_lines(call(*arguments, "--output", "json"))
    assert report["records"] >= 300
    assert report["log_partitions"] == LOG_PARTITIONS
    group_ids = set()
    for log_partition, loader in loaded_from(small_broker, starts):
        assert loader.pending == {}
        groups = {key.group_id for key in loader.offsets}
        assert {partition_for(group, LOG_PARTITIONS) for group in groups} <= {log_partition}
        group_ids |= groups
    assert len(group_ids) > 10


def test_a_broker_that_loads_it_answers_as_the_model(small_broker: EmbeddedBroker) -> None:
    """The last test of this broker, whose logs it replaces."""
    small_broker.create_offsets_topic()
    # Recent, so that the broker expires nothing; sessions last for half an hour.
    workload = Workload(SETTINGS)
    workload.run(10 * MINUTE_MS)
    small_broker.load_logs(workload.logs())
    small_broker.wait_until_loaded()
    with BrokerAnswers(small_broker.bootstrap_servers) as answering:
        answers = answering.answers()
    # The broker has none of the topics, and leaves them out of assignments.
    expected = model_answers(workload.coordinators.values(), {})
    verification = compare(answers, expected, answers)
    assert verification.differences == []
    assert verification.counts["offset"] > 50
    assert verification.counts["member"] > 10
