"""Plans, executed by Kafka's own tool: the tables and the broker then have what was announced."""

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

from coordinator_state.insight.kafka_commands import reset_commands
from coordinator_state.replay.partitioner import OFFSETS_TOPIC, partition_for
from streaming.local.broker.embedded import EmbeddedBroker
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
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
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


def now() -> str:
    return datetime.now(timezone.utc).isoformat()


def test_resets(cluster: Cluster) -> None:
    """To a state, to a time, and to the oldest kept records."""
    group, file = "payments", cluster.file("reset")
    cluster.commit(group, 10)
    cluster.materialise()
    then = now()
    produce(cluster.broker, TOPIC, 100, 2)
    cluster.commit(group, 120, 130)
    cluster.verified()

    to_state = cluster.plan("reset", group, "--to-state-at", then, "--file", file)
    assert [(row["from_offset"], row["to_offset"]) for row in to_state["offsets"]] == [
        (120, 10),
        (130, None),
    ]
    assert to_state["offsets"][0]["records_replayed"] == 110
    cluster.diff(file, "--group", group, exit_code=1)
    dry_run, real = to_state["commands"]
    assert "10" in execute(dry_run)
    cluster.materialise()
    assert cluster.committed(group) == {0: 120, 1: 130}, "a dry run changes nothing"
    execute(real)
    cluster.verified()
    assert cluster.committed(group) == announced(to_state) == {0: 10, 1: 130}
    assert cluster.diff(file, "--group", group)["equal"] == 1

    to_time = cluster.plan("reset", group, "--to-time", then, "--file", file, "--force")
    # Partition 1 had no committed offset then, but its log was sampled.
    assert announced(to_time) == {0: 100, 1: 100}
    assert to_time["offsets"][0]["records_skipped"] == 90
    execute(to_time["commands"][1])
    admin = AdminClient(cluster.servers)
    admin.delete_records([Place(TOPIC, 0, 30)])[Place(TOPIC, 0, 30)].result()
    cluster.verified()
    assert cluster.committed(group) == announced(to_time)
    assert cluster.diff(file, "--group", group)["is_equal"]

    to_state = cluster.plan("reset", group, "--to-state-at", then, "--file", file, "--force")
    assert to_state["offsets"][0]["records_deleted"] == 20
    execute(to_state["commands"][1])
    cluster.verified()
    assert cluster.committed(group) == announced(to_state) == {0: 30, 1: 100}
    assert cluster.diff(file, "--group", group)["is_equal"]

    kept = cluster.plan("reset", group, "--to-earliest-kept", "--file", file, "--force")
    execute(kept["commands"][1])
    cluster.verified()
    assert cluster.committed(group) == announced(kept) == {0: 30, 1: 0}
    assert cluster.diff(file, "--group", group)["is_equal"]


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


def test_clones(cluster: Cluster) -> None:
    """A clone into a group that does not exist, and one into a group with offsets."""
    group = "orders-v1"
    cluster.commit(group, 40, 50)
    cluster.commit("orders-v3", 90)
    cluster.verified()
    for new, from_offsets in (("orders-v2", [None, None]), ("orders-v3", [90, None])):
        file = cluster.file(new)
        plan = cluster.plan("clone", group, new, "--file", file)
        assert [row["from_offset"] for row in plan["offsets"]] == from_offsets
        assert cluster.diff(file, "--group", new, exit_code=1)["equal"] == 0
        execute(plan["commands"][1])
        cluster.verified()
        assert cluster.committed(new) == announced(plan) == {0: 40, 1: 50}
        assert cluster.diff(file, "--group", new)["equal"] == 2


def test_a_backup_is_restored(cluster: Cluster) -> None:
    """Of groups with odd names, one of them deleted since; not of one that no file can have."""
    for number, group in enumerate(ODD_GROUPS):
        cluster.commit(group, 40 + number, 50)
    cluster.commit("line\nfeed", 1)
    cluster.verified()
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


def test_one_line_of_a_topic_that_is_gone_stops_the_whole_group(cluster: Cluster) -> None:
    """The reason why plans and backups leave out such offsets."""
    file = Path(cluster.file("gone"))
    file.write_text(f"{TOPIC},0,5\n{GONE},0,5\n")
    ((_, real),) = reset_commands(["of-gone"], str(file), cluster.broker.bootstrap_servers)
    execute(real)
    cluster.materialise()
    assert cluster.committed("of-gone") == {}
