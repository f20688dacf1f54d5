"""Kafka's own tools execute the printed lines; the tables then have the announced offsets."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka.structs import OffsetAndMetadata, TopicPartition

from coordinator_state.insight.kafka_commands import (
    GROUP_TOOLS,
    reset_commands,
    transaction_commands,
)
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.replay.partitioner import partition_for
from coordinator_state.replay.transactions import TWO_PHASE_COMMIT_TIMEOUT_MS
from streaming.lag.open_transactions import open_transactions
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.filters import Filters
from streaming.tables.reader import TableReader
from streaming.verify.verify import verify_cluster
from tests.support.brokers.commits import create_topic, produce, rows_of_group
from tests.support.brokers.running_query import run_to_end
from tests.support.clients.command_line import call, json_lines
from tests.support.clients.kafka_tools import run_kafka_tool
from tests.support.eventually import Eventually
from tests.support.logs.logs import offset_key, offset_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

TOPIC: Final = "orders"
GONE: Final = "deleted-topic"
ODD_GROUPS: Final = (
    "a,b \"c\" 'd' \\e",
    " spaces ",
    "$(touch /tmp/x)`id`;${PATH}",
    "\x1b[31mred\t\u202e",
    "=formula",
    "größe",
    "return\r",
    "#comment",
)
_CLASSES: Final = {
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-share-groups.sh": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups.sh": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}


@dataclass
class Cluster:
    """A broker with its tables, and the clients of the tests."""

    broker: EmbeddedBroker
    spark: SparkSession
    folder: Path
    tables: str = field(init=False)

    def __post_init__(self) -> None:
        self.tables = str(self.folder / "tables")

    @property
    def servers(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.broker.bootstrap_servers}

    def commit(self, group: str, *offsets: int, topic: str = TOPIC) -> None:
        """Commit offsets of the first partitions, as a client that does not join."""
        # librdkafka strips spaces from a group id.
        with closing(
            KafkaConsumer(
                bootstrap_servers=self.broker.bootstrap_servers,
                group_id=group,
                enable_auto_commit=False,
            )
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.commit(
                {
                    TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
                    for partition, offset in enumerate(offsets)
                }
            )

    def materialise(self) -> None:
        """Load the log to its end, and sample the logs of the topics."""
        run_to_end(self.broker, self.spark, self.folder, lag_interval="1 second", history="all")

    def verified(self, *orphans: str) -> None:
        """Materialise, and compare the tables with the broker, which also lists orphans."""
        self.materialise()
        verification = verify_cluster(self.broker.bootstrap_servers, self.tables)
        assert {difference.key.group_id for difference in verification.differences} == set(orphans)

    def plan(self, *arguments: str) -> dict[str, Any]:
        """A plan as JSON."""
        more = ("--tables", self.tables, "--bootstrap-servers", self.broker.bootstrap_servers)
        (document,) = json_lines(call("plan", *arguments, *more, "--output", "json"))
        return document

    def diff(self, file: str, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
        more = ("--tables", self.tables, "--output", "json")
        (document,) = json_lines(call("plan", "diff", file, *arguments, *more, exit_code=exit_code))
        return document

    def committed(self, group: str) -> dict[int, int]:
        rows = rows_of_group(Path(self.tables), "group_offsets", group)
        return {row["partition"]: row["committed_offset"] for row in rows}

    def file(self, name: str) -> str:
        return str(self.folder / f"{name}.csv")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Cluster]:
    with EmbeddedBroker(folder=tmp_path_factory.mktemp("broker")) as broker:
        broker.create_offsets_topic()
        create_topic(broker, TOPIC, 2)
        produce(broker, TOPIC, 200, 2)
        yield Cluster(broker, spark, tmp_path_factory.mktemp("plans"))


def execute(line: str) -> str:
    """Run a printed line: bash splits it into words, and the class of the script takes them."""
    script = line.split(maxsplit=1)[0]
    # As bytes, because text would have a line feed for a carriage return.
    split = subprocess.run(
        ["/bin/bash", "-c", f'{script}() {{ printf "%s\\0" "$@"; }}; {line}'],
        capture_output=True,
        check=True,
    ).stdout
    words = split.decode().split("\0")[:-1]
    return run_kafka_tool(_CLASSES[script], *words)


def announced(plan: Mapping[str, Any]) -> dict[int, int]:
    """The offsets by partition after the execution of a plan."""
    return {
        row["partition"]: row["from_offset"] if row["to_offset"] is None else row["to_offset"]
        for row in plan["offsets"]
    }


def test_resets(cluster: Cluster) -> None:
    """To a state, and to the oldest kept records."""
    group, file = "payments", cluster.file("reset")
    cluster.commit(group, 10)
    cluster.materialise()
    then = datetime.now(timezone.utc).isoformat()
    produce(cluster.broker, TOPIC, 100, 2)
    cluster.commit(group, 120, 130)
    cluster.materialise()

    to_state = cluster.plan("reset", group, "--to-state-at", then, "--file", file)
    assert announced(to_state) == {0: 10, 1: 130}
    cluster.diff(file, "--group", group, exit_code=1)
    dry_run, real = to_state["commands"]
    assert "10" in execute(dry_run)
    cluster.materialise()
    assert cluster.committed(group) == {0: 120, 1: 130}, "a dry run changes nothing"
    execute(real)
    admin = AdminClient(cluster.servers)
    admin.delete_records([Place(TOPIC, 0, 30)])[Place(TOPIC, 0, 30)].result()
    cluster.materialise()
    assert cluster.committed(group) == announced(to_state)
    assert cluster.diff(file, "--group", group)["is_equal"]

    kept = cluster.plan("reset", group, "--to-earliest-kept", "--file", file, "--force")
    execute(kept["commands"][1])
    cluster.verified()
    assert cluster.committed(group) == announced(kept) == {0: 30, 1: 0}


def test_a_group_with_members_is_warned_about_and_refused(
    cluster: Cluster, eventually: Eventually
) -> None:
    group = "busy"
    config = {
        **cluster.servers,
        "group.id": group,
        "client.id": "worker",
        "auto.offset.reset": "latest",
    }
    with closing(Consumer(config)) as consumer:
        consumer.subscribe([TOPIC])
        eventually(lambda: consumer.poll(0.1) or consumer.assignment(), 120)
        consumer.commit(offsets=[Place(TOPIC, 0, 77)], asynchronous=False)
        cluster.materialise()
        file = cluster.file("busy")
        plan = cluster.plan("reset", group, "--to-earliest-kept", "--file", file)
        assert plan["members"] == [{"client_id": "worker", "client_host": "/127.0.0.1"}]
        assert "stop first worker at /127.0.0.1" in plan["warnings"][0]
        assert "current state is Stable" in execute(plan["commands"][1])
        cluster.materialise()
        assert cluster.committed(group)[0] == 77


def test_a_clone_into_a_group_with_offsets(cluster: Cluster) -> None:
    cluster.commit("orders-v1", 40, 50)
    cluster.commit("orders-v2", 90)
    cluster.materialise()
    file = cluster.file("clone")
    plan = cluster.plan("clone", "orders-v1", "orders-v2", "--file", file)
    assert [row["from_offset"] for row in plan["offsets"]] == [90, None]
    assert cluster.diff(file, "--group", "orders-v2", exit_code=1)["equal"] == 0
    execute(plan["commands"][1])
    cluster.materialise()
    assert cluster.committed("orders-v2") == announced(plan) == {0: 40, 1: 50}


def test_a_backup_is_restored(cluster: Cluster) -> None:
    """Of groups with odd names, one of them deleted since; not of one that no file can have."""
    for number, group in enumerate(ODD_GROUPS):
        cluster.commit(group, 40 + number, 50)
    cluster.commit("line\nfeed", 1)
    cluster.materialise()
    file = cluster.file("backup")
    backup = cluster.plan("backup", "--file", file)
    assert backup["left_out"] == ["Not in the file: group 'line\nfeed', its id has a line feed"]
    assert backup["groups"] >= len(ODD_GROUPS)
    assert cluster.diff(file)["equal"] == backup["offsets"]
    for group in ODD_GROUPS[1:]:
        cluster.commit(group, 99, 99)
    cluster.commit("new-since", 5)
    admin = AdminClient(cluster.servers)
    for deleted in admin.delete_consumer_groups(["line\nfeed", ODD_GROUPS[0]]).values():
        deleted.result()
    cluster.materialise()
    changed = cluster.diff(file, exit_code=1)
    differing = 2 * len(ODD_GROUPS[1:])
    assert (changed["missing"], changed["differs"], changed["extra"]) == (2, differing, 1)

    (_, real) = backup["commands"]
    assert "Error" not in execute(real)
    admin.delete_consumer_groups(["new-since"])["new-since"].result()
    cluster.verified()
    restored = cluster.diff(file)
    assert (restored["is_equal"], restored["equal"]) == (True, backup["offsets"])


def test_cleanup(cluster: Cluster) -> None:
    """Its commands delete exactly the rows that they are for."""
    producer = Producer({**cluster.servers, "client.id": "__admin_client"})
    old_log_partition = (partition_for("moved", 50) + 1) % 50
    for group, topic, log_partition in (
        ("dead", TOPIC, None),
        ("only-gone", GONE, None),
        ("partly-gone", GONE, None),
        ("partly-gone", TOPIC, None),
        ("moved", TOPIC, old_log_partition),
    ):
        now_ms = int(datetime.now(timezone.utc).timestamp() * 1000)
        fields = {} if group in ("dead", "moved") else {"commitTimestamp": now_ms}
        producer.produce(
            OFFSETS_TOPIC,
            key=offset_key(group, topic, 0),
            value=offset_value(7, **fields),
            partition=partition_for(group, 50) if log_partition is None else log_partition,
        )
    assert producer.flush(30) == 0
    # A running coordinator does not read its log.
    cluster.broker.restart()
    cluster.verified("moved")

    more = ("--tables", cluster.tables, "--bootstrap-servers", cluster.broker.bootstrap_servers)
    rows = json_lines(call("plan", "cleanup", *more, "--output", "json"))
    leftovers = {(row["kind"], row["group_id"]): row for row in rows}
    assert set(leftovers) == {
        ("group", "dead"),
        ("offsets", "only-gone"),
        ("offsets", "partly-gone"),
        ("orphan", "moved"),
    }
    assert leftovers["offsets", "partly-gone"]["command"] is None
    assert leftovers["orphan", "moved"]["command"] is None
    refused = execute(
        f"kafka-consumer-groups.sh --bootstrap-server {cluster.broker.bootstrap_servers} "
        f"--delete-offsets --group partly-gone --topic {GONE}:0"
    )
    assert "does not host this topic-partition" in refused
    for row in rows:
        if row["command"] is not None:
            assert "was successful" in execute(row["command"])
    cluster.verified("moved")
    groups = TableReader(cluster.tables).read("groups")["group_id"].to_pylist()
    assert not {"dead", "only-gone"} & set(groups)
    left = json_lines(call("plan", "cleanup", *more, "--output", "json"))
    assert [row["group_id"] for row in left] == ["partly-gone", "moved"]


def test_the_lines_of_a_hanging_transaction_find_it_and_end_it(
    cluster: Cluster, eventually: Eventually
) -> None:
    group = "hanging"
    login = {"transactional.id": group, "transaction.timeout.ms": 600_000}
    producer = Producer({**cluster.servers, **login})
    producer.init_transactions(30)
    config = {"group.id": group, "client.id": "fraud", "enable.auto.commit": False}
    with closing(Consumer({**cluster.servers, **config})) as consumer:
        consumer.subscribe([TOPIC])
        eventually(lambda: consumer.poll(0.1) or consumer.assignment(), 120)
        producer.begin_transaction()
        for offset in (5, 6):
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([Place(TOPIC, 0, offset)], metadata)
        cluster.materialise()
        own: Filters = [("group_id", "=", group)]
        ((transaction, (row,)),) = open_transactions(TableReader(cluster.tables), own)
        assert (row["committed_offset"], row["client_id"]) == (6, "fraud")
        assert transaction.first_record_offset < row["record_offset"], "the first is superseded"

        servers = cluster.broker.bootstrap_servers
        place = transaction.log_partition, transaction.first_record_offset
        commands = transaction_commands(*place, servers)
        assert start_offset(execute(commands.describe), transaction.producer_id) == str(place[1])
        # Its coordinator knows it, so it is not hanging for Kafka.
        assert "ProducerId" in execute(commands.find)
        execute(commands.end)

        def is_ended() -> bool:
            return start_offset(execute(commands.describe), transaction.producer_id) == "None"

        eventually(is_ended, 120)
    cluster.materialise()
    assert open_transactions(TableReader(cluster.tables), own) == []
    commits = rows_of_group(Path(cluster.tables), "offset_commits", group)
    outcomes = {row["committed_offset"]: row["outcome"] for row in commits}
    assert outcomes == {5: "superseded", 6: "aborted"}


def test_a_two_phase_commit_is_known_and_can_be_terminated(
    tmp_path: Path, spark: SparkSession, eventually: Eventually
) -> None:
    """A broker of Kafka 4.4 never aborts the transaction by itself.

    No client of 4.4 asks for a two-phase commit yet. For the broker, the timeout is what makes one.
    """
    timeout_ms = TWO_PHASE_COMMIT_TIMEOUT_MS
    properties = {"transaction.max.timeout.ms": timeout_ms}
    with EmbeddedBroker(folder=tmp_path / "broker", properties=properties) as broker:
        broker.create_offsets_topic()
        create_topic(broker, TOPIC, 1)
        cluster = Cluster(broker, spark, tmp_path)
        login = {"transactional.id": "two phases", "transaction.timeout.ms": timeout_ms}
        producer = Producer({**cluster.servers, **login})
        producer.init_transactions(30)
        producer.begin_transaction()
        with closing(Consumer({**cluster.servers, "group.id": "prepared"})) as consumer:
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([Place(TOPIC, 0, 1)], metadata, 30)
        cluster.materialise()
        ((transaction, _),) = open_transactions(TableReader(cluster.tables))
        assert transaction.two_phase_commit_id == "two phases"
        assert transaction.owner is not None
        assert (transaction.owner.state, transaction.owner.abort_timestamp) == ("Ongoing", None)
        commands = transaction_commands(
            *(transaction.log_partition, transaction.first_record_offset, broker.bootstrap_servers),
            two_phase_commit_id=transaction.two_phase_commit_id,
        )
        assert commands.terminate is not None
        execute(commands.terminate)

        def is_ended() -> bool:
            return start_offset(execute(commands.describe), transaction.producer_id) == "None"

        eventually(is_ended, 120)
        cluster.materialise()
        assert open_transactions(TableReader(cluster.tables)) == []


def start_offset(described: str, producer_id: int) -> str:
    """The start offset of a producer's transaction, as `describe-producers` prints it."""
    rows = (line.split() for line in described.splitlines() if line.strip())
    (cells,) = (cells for cells in rows if cells[0] == str(producer_id))
    return cells[5]


def test_the_tools_of_share_and_streams_groups_execute_plans(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Both tools create a group that does not exist, so no member needs to join before."""
    with EmbeddedBroker(folder=tmp_path / "broker") as broker:
        broker.create_offsets_topic()
        create_topic(broker, TOPIC, 2)
        produce(broker, TOPIC, 20, 2)
        cluster = Cluster(broker, spark, tmp_path)
        begin = Path(cluster.file("begin"))
        begin.write_text(f"{TOPIC},1,7\n")
        for group_type in GROUP_TOOLS:
            ((dry_run, real),) = reset_commands(
                [f"of-{group_type}"], str(begin), broker.bootstrap_servers, group_type
            )
            for line in (dry_run, real):
                assert execute(line).split()[-4:] == [f"of-{group_type}", TOPIC, "1", "7"]
        cluster.materialise()
        assert cluster.committed("of-streams") == {1: 7}

        file = cluster.file("share")
        plan = cluster.plan("reset", "of-share", "--shift-by", "-4", "--file", file)
        (planned,) = plan["offsets"]
        assert (planned["partition"], planned["from_offset"], planned["to_offset"]) == (1, 7, 3)
        for line in plan["commands"]:
            assert execute(line).split()[-4:] == ["of-share", TOPIC, "1", "3"]
        cluster.materialise()
        (share_partition,) = rows_of_group(Path(cluster.tables), "share_partitions", "of-share")
        assert (share_partition["partition"], share_partition["start_offset"]) == (1, 3)
