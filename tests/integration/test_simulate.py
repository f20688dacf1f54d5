"""A simulated workload in the topic of a real broker, and in a file for Kafka's own tool."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka.protocol.consumer import OffsetCommitRequest

from coordinator_state.log.record_batch import read_record_batches
from coordinator_state.model.workload import MINUTE_MS, Workload, WorkloadSettings
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import OffsetKey, Semantics
from coordinator_state.replay.partitioner import partition_for
from streaming.kafka.fetch import LogClient
from streaming.kafka.group_admin import GroupAdmin
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.local.simulation.topic import OffsetsTopic
from tests.support.brokers.commits import create_topic
from tests.support.clients.command_line import call, json_lines
from tests.support.clients.kafka_tools import run_kafka_tool
from tests.support.eventually import Eventually

pytestmark = pytest.mark.long

LOG_PARTITIONS = 3
VERSIONS = {Semantics.COORDINATOR: "4.2.0", Semantics.SCALA: "3.9.1"}
NO_ERROR, NOT_COORDINATOR = 0, 16


@pytest.fixture(scope="module")
def small_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker with few log partitions."""
    properties = {"offsets.topic.num.partitions": LOG_PARTITIONS}
    folder = tmp_path_factory.mktemp("simulate")
    with EmbeddedBroker(folder=folder, properties=properties) as broker:
        yield broker


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
    refused = call(*arguments, "--log-partitions", "50", exit_code=2)
    assert "has 3 partitions: remove --log-partitions" in refused.stderr
    with closing(LogClient(small_broker.bootstrap_servers)) as client:
        starts = client.high_watermarks()
        if workload == "groups":
            refused = call(*arguments, "--transactional", "0.1", exit_code=2)
            assert "--transactional 0" in refused.stderr
            # Nothing was produced.
            assert set(client.high_watermarks().values()) == set(starts.values()) == {0}
        (report,) = json_lines(call(*arguments, "--output", "json"))
        assert report["records"] >= 300
        assert report["log_partitions"] == LOG_PARTITIONS
        group_ids = set[str]()
        for log_partition, answer in client.fetch(starts).items():
            loader = ReferenceLoader(strict=True)
            loader.load(read_record_batches(answer.records))
            assert loader.pending == {}
            groups = {key.group_id for key in loader.offsets}
            assert {partition_for(group, LOG_PARTITIONS) for group in groups} <= {log_partition}
            group_ids |= groups
    assert len(group_ids) > 10


def test_kafkas_own_tool_reads_a_simulated_log(tmp_path: Path) -> None:
    """The file's name is a number, as in the docs: the tool refuses other names."""
    log = tmp_path / "0.log"
    call("simulate", "--groups", "20", "--records", "2000", "--file", str(log), "--compact")
    dumped = run_kafka_tool(
        "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(log)
    )
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", dumped, re.MULTILINE)]
    assert offsets == [
        line["recordOffset"] for line in json_lines(call("decode", "--file", str(log)))
    ]


@pytest.mark.parametrize("semantics", list(Semantics))
def test_a_live_coordinator_of_kafka_4_loads_what_was_produced_with_its_next_record(
    semantics: Semantics, tmp_path: Path, eventually: Eventually
) -> None:
    is_noticed = semantics is Semantics.COORDINATOR
    workload = Workload(WorkloadSettings(groups=3, log_partitions=1, transactional_share=0))
    workload.run(MINUTE_MS)
    (coordinator,) = workload.coordinators.values()
    one_partition = {"offsets.topic.num.partitions": 1}
    with (
        EmbeddedBroker(
            version=VERSIONS[semantics], folder=tmp_path, properties=one_partition
        ) as broker,
        GroupAdmin(broker.bootstrap_servers) as admin,
    ):
        broker.create_offsets_topic()
        create_topic(broker, "t")
        node_id = admin.find_coordinator("live").node_id

        def answer_to_a_commit(offset: int) -> int:
            request = _commit_request("live", "t", offset)
            answer = admin.with_retries("commit", lambda: admin.send(node_id, request))
            (partition,) = answer.topics[0].partitions
            return int(partition.error_code)

        assert eventually(lambda: answer_to_a_commit(1) == NO_ERROR, 60)
        with OffsetsTopic(broker.bootstrap_servers) as topic:
            topic.append((part.log_partition, part.batches) for part in workload.take())
        first = answer_to_a_commit(2)
        assert first == (NOT_COORDINATOR if is_noticed else NO_ERROR)
        eventually(lambda: answer_to_a_commit(3) == NO_ERROR, 120)
        fetched = admin.offset_fetch(dict.fromkeys(coordinator.groups))
    expected = {key: offset.committed_offset for key, offset in coordinator.offsets.items()}
    answers = {
        OffsetKey(group_id, *answer.topic_partition): answer.committed_offset
        for group_id, group_answers in fetched.items()
        for answer in group_answers
    }
    assert expected
    assert answers == (expected if is_noticed else {})


def _commit_request(group_id: str, topic: str, offset: int) -> OffsetCommitRequest:
    Topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = Topic.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[Topic(name=topic, partitions=[partition])],
        max_version=8,
    )
