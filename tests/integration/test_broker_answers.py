"""What a real broker answers, and `verify` against it with tables that need no Spark to write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.replay.partitioner import partition_for
from streaming.cli.main import cli
from streaming.errors import ConfigurationError
from streaming.kafka import retrying_client
from streaming.kafka.group_admin import GroupAdmin
from streaming.kafka.group_location import locate_group
from streaming.kafka.offset_fetch import OffsetFetchAnswer
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.verify.answer import IS_PENDING, AnswerKey, Answers
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.verification import Verification
from streaming.verify.verify import verify_cluster
from tests.support.eventually import Eventually
from tests.support.logs.logs import offset_key, offset_value
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables

pytestmark = pytest.mark.long

LOG_PARTITIONS = 4
TOPIC = "orders"


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker with few log partitions, whose groups are all of this file."""
    properties = {"offsets.topic.num.partitions": LOG_PARTITIONS}
    folder = tmp_path_factory.mktemp("answers")
    with EmbeddedBroker(folder=folder, properties=properties) as broker:
        broker.create_offsets_topic()
        admin = AdminClient(client_config(broker))
        admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result()
        yield broker


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}-{uuid4()}"


@pytest.fixture(scope="module")
def answering(own_broker: EmbeddedBroker) -> Iterator[BrokerAnswers]:
    with BrokerAnswers(own_broker.bootstrap_servers) as answering:
        yield answering


def client_config(broker: EmbeddedBroker, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, **more}


def consumer(broker: EmbeddedBroker, group: str, **more: Any) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        client_config(broker, **{"group.id": group, "enable.auto.commit": False, **more})
    )


def commit(broker: EmbeddedBroker, group: str, *offsets: confluent_kafka.TopicPartition) -> None:
    """Commit as a consumer that assigns itself: a simple group."""
    with closing(consumer(broker, group)) as committing:
        committing.commit(offsets=list(offsets), asynchronous=False)


def at(partition: int, offset: int, metadata: str = "") -> confluent_kafka.TopicPartition:
    # Given any metadata, confluent-kafka commits a zero byte behind it.
    more = (metadata,) if metadata else ()
    return confluent_kafka.TopicPartition(TOPIC, partition, offset, *more)


def committed(offset: int, *, metadata: str = "", leader_epoch: int = -1) -> Row:
    fields = {"committed_offset": offset, "metadata": metadata}
    return fields | {"leader_epoch": leader_epoch}


def test_a_simple_group_has_offsets_and_no_protocol(
    own_broker: EmbeddedBroker, answering: BrokerAnswers, group: str
) -> None:
    commit(own_broker, group, at(0, 5), at(1, 7))

    assert answering.answers([group, "no such group"]) == {
        AnswerKey("group", group): {
            "group_type": "classic",
            "state": "Empty",
            "protocol_type": "",
            "group_epoch": None,
            "assignment_epoch": None,
        },
        AnswerKey("offset", group, TOPIC, 0): committed(5),
        AnswerKey("offset", group, TOPIC, 1): committed(7),
    }


def test_named_partitions_are_answered_known_or_not(own_broker: EmbeddedBroker, group: str) -> None:
    commit(own_broker, group, at(0, 5))

    with GroupAdmin(own_broker.bootstrap_servers) as admin:
        found = admin.offset_fetch({group: [(TOPIC, 0), ("gone", 9)], "none": [(TOPIC, 0)]})

    assert sorted(found[group], key=lambda answer: str(answer.topic)) == [
        OffsetFetchAnswer(topic="gone", partition=9),
        OffsetFetchAnswer(topic=TOPIC, partition=0, committed_offset=5),
    ]
    assert found["none"] == [OffsetFetchAnswer(topic=TOPIC, partition=0)]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_with_members_of_both_protocols(
    protocol: str,
    own_broker: EmbeddedBroker,
    answering: BrokerAnswers,
    eventually: Eventually,
    group: str,
) -> None:
    # A consumer that is left to the garbage collector without a close can hang the process.
    with closing(
        consumer(own_broker, group, **{"group.protocol": protocol, "client.id": "me"})
    ) as member:
        member.subscribe([TOPIC])

        def answers_once_stable() -> Answers:
            member.poll(0.1)
            found = answering.answers([group])
            fields = found.get(AnswerKey("group", group), {"state": "absent"})
            return found if fields["state"] == "Stable" and member.assignment() else {}

        found = eventually(answers_once_stable)

    epoch = None if protocol == "classic" else 2
    assert found[AnswerKey("group", group)] == {
        "group_type": protocol,
        "state": "Stable",
        "protocol_type": "consumer",
        "group_epoch": epoch,
        "assignment_epoch": epoch,
    }
    (described,) = (fields for key, fields in found.items() if key.kind == "member")
    assert (described["client_id"], described["client_host"]) == ("me", "/127.0.0.1")
    if protocol == "classic":
        assert TOPIC.encode() in described["assignment"]
    else:
        assert described["assignment"] == [f"{TOPIC}:{partition}" for partition in range(3)]
        assert described["subscribed_topics"] == [TOPIC]


def test_an_open_transaction_makes_its_offsets_pending(
    own_broker: EmbeddedBroker, answering: BrokerAnswers, group: str, eventually: Eventually
) -> None:
    commit(own_broker, group, at(0, 5), at(1, 7))
    producer = confluent_kafka.Producer(client_config(own_broker, **{"transactional.id": group}))
    producer.init_transactions(30)
    producer.begin_transaction()
    with closing(consumer(own_broker, group)) as owner:
        metadata = owner.consumer_group_metadata()
        producer.send_offsets_to_transaction([at(0, 6), at(2, 1)], metadata)
    pending = {AnswerKey("pending", group, TOPIC, 0): IS_PENDING}

    def pending_answers(*asked: tuple[str, str, int]) -> Answers:
        found = answering.answers([group], asked)
        assert found[AnswerKey("offset", group, TOPIC, 0)] == committed(5)
        return {key: fields for key, fields in found.items() if key.kind == "pending"}

    try:
        assert pending_answers() == pending
        # One that is pending alone is told only to those who ask for it.
        pending_alone = {AnswerKey("pending", group, TOPIC, 2): IS_PENDING}
        assert pending_answers((group, TOPIC, 2), ("x", TOPIC, 0)) == pending | pending_alone
    finally:
        producer.abort_transaction(30)
    # The abort is answered before its marker is in the log.
    eventually(lambda: pending_answers((group, TOPIC, 2)) == {})


def test_a_group_is_located(own_broker: EmbeddedBroker, group: str) -> None:
    found = locate_group(group, own_broker.bootstrap_servers)

    assert found.log_partition == partition_for(group, LOG_PARTITIONS)
    assert found.log_partitions == LOG_PARTITIONS
    assert found.coordinator == found.leader
    assert f"{found.host}:{found.port}" == own_broker.bootstrap_servers


def test_a_log_partition_is_decoded(own_broker: EmbeddedBroker, group: str) -> None:
    commit(own_broker, group, at(0, 5, "one"))
    commit(own_broker, group, at(0, 6, "two"))
    partition = str(partition_for(group, LOG_PARTITIONS))
    decode = ["decode", "--bootstrap-servers", own_broker.bootstrap_servers]

    def documents(*options: str) -> list[dict[str, Any]]:
        result = CliRunner().invoke(cli, [*decode, "--log-partition", partition, *options])
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    of_group = [
        document
        for document in documents()
        if document.get("key", {}).get("data", {}).get("group") == group
    ]
    assert [document["value"]["data"]["offset"] for document in of_group] == [5, 6]
    last = of_group[-1]
    one = ["--from-offset", str(last["recordOffset"]), "--to-offset", str(last["recordOffset"] + 1)]
    assert documents(*one) == [last]


def test_a_broker_that_loads_is_waited_for_and_nothing_is_left_out(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    groups = [f"group-{number}" for number in range(1_000)]
    segments: dict[int, list[tuple[int, int, bytes, bytes]]] = {
        p: [] for p in range(LOG_PARTITIONS)
    }
    for group in groups:
        records = segments[partition_for(group, LOG_PARTITIONS)]
        for partition in range(3):
            key = offset_key(group, TOPIC, partition)
            records.append((len(records), 0, key, offset_value(partition)))
    properties = {"offsets.topic.num.partitions": LOG_PARTITIONS}
    folder = tmp_path_factory.mktemp("loading")
    with EmbeddedBroker(folder=folder, properties=properties) as broker:
        broker.create_offsets_topic()
        broker.stop()
        for log_partition, records in segments.items():
            broker.replace_log(log_partition, write_record_batch(0, records))
        broker.start()
        # Not a moment later: a coordinator that has not begun to load is not among those asked.
        with BrokerAnswers(broker.bootstrap_servers) as answering:
            found = answering.answers()

    assert {key.group_id for key in found if key.kind == "group"} == set(groups)
    assert sum(key.kind == "offset" for key in found) == 3 * len(groups)


class TestVerifyCluster:
    @pytest.fixture
    def verified(
        self, own_broker: EmbeddedBroker, answering: BrokerAnswers, tmp_path: Path, group: str
    ) -> Any:
        """Commit 5, then verify tables that hold what is given, in the group's log partition."""
        commit(own_broker, group, at(0, 5))
        own = partition_for(group, LOG_PARTITIONS)
        log = answering.describe_log()
        tables = create_tables(
            tmp_path / "tables",
            cluster_id=log.cluster_id,
            topic_id=log.topic_id,
            log_partitions=str(LOG_PARTITIONS),
        )

        def verified(*, behind: int = 0, **columns: Any) -> Verification:
            row = {"log_partition": own, "group_id": group}
            known = answering.answers()
            rows: dict[str, list[Row]] = {"groups": [], "group_offsets": []}
            for key, fields in known.items():
                of_group = {"log_partition": own, "group_id": key.group_id, **fields}
                if partition_for(key.group_id, LOG_PARTITIONS) != own:
                    continue
                if key.kind == "group":
                    rows["groups"].append(of_group)
                elif key.kind == "offset":
                    place = {"topic": key.topic, "partition": key.partition}
                    changed = columns if key.group_id == row["group_id"] else {}
                    rows["group_offsets"].append(of_group | place | changed)
            end = answering.high_watermarks()[own] - behind
            progress = [{"log_partition": own, "next_offset": end, "high_watermark": end}]
            apply_micro_batch(tables, progress=progress, **rows)
            return verify_cluster(
                own_broker.bootstrap_servers, tables, timeout_s=0, log_partitions=[own]
            )

        verified.tables = tables  # type: ignore[attr-defined]
        return verified

    def test_tables_that_say_the_same_are_equal(self, verified: Any, group: str) -> None:
        result = verified()

        assert result.is_equal, result.differences
        assert AnswerKey("offset", group, TOPIC, 0) in result.equal

    def test_a_difference_is_found(self, verified: Any, group: str) -> None:
        (difference,) = verified(committed_offset=4).differences

        assert difference.key == AnswerKey("offset", group, TOPIC, 0)
        assert (difference.broker, difference.tables) == (5, 4)

    def test_tables_that_lack_a_record_are_behind(self, verified: Any) -> None:
        assert sum(verified(behind=1).behind.values()) == 1

    def test_tables_of_another_cluster_are_refused(
        self, own_broker: EmbeddedBroker, tmp_path: Path
    ) -> None:
        tables = create_tables(tmp_path, cluster_id="another")

        with pytest.raises(ConfigurationError, match="to cluster another"):
            verify_cluster(own_broker.bootstrap_servers, tables)

    def test_tables_of_a_smaller_topic_are_refused(
        self, own_broker: EmbeddedBroker, answering: BrokerAnswers, tmp_path: Path
    ) -> None:
        log = answering.describe_log()
        ids = {"cluster_id": log.cluster_id, "topic_id": log.topic_id}
        tables = create_tables(tmp_path, **ids, log_partitions="2")

        with pytest.raises(ConfigurationError, match="had 2 partitions; now it has 4"):
            verify_cluster(own_broker.bootstrap_servers, tables)


def test_nobody_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying_client, "FIRST_CONTACT_TIMEOUT_S", 0.5)
    with (
        GroupAdmin("127.0.0.1:1") as admin,
        pytest.raises(
            ConfigurationError, match=r"cannot reach Kafka at 127\.0\.0\.1:1: "
        ) as caught,
    ):
        admin.list_groups()
    assert "\n" not in str(caught.value)
