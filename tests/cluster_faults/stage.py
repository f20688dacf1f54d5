"""The cluster on which faults happen."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from datetime import datetime, timezone

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import PartitionMetadata
from kafka import TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.replay.partitioner import partition_for
from streaming.kafka.fetch import LogClient
from streaming.local.demo.groups import BROKER_PROPERTIES, INVOICES, ORDERS
from tests.support.brokers.commits import admin_of
from tests.support.brokers.embedded_cluster import EmbeddedCluster
from tests.support.eventually import wait_until

LOG_PARTITIONS = 6
CLUSTER_PROPERTIES: Mapping[str, object] = {
    **BROKER_PROPERTIES,
    "offsets.topic.num.partitions": LOG_PARTITIONS,
    # Preferred leaders come back when a fault is to have them, and not by a timer.
    "auto.leader.rebalance.enable": "false",
}

PATIENCE_S = 240.0
_ANSWER_S = 10.0
_PREFERRED = 0


class Stage:
    """A cluster with `__consumer_offsets`, on which faults are done.

    Attributes:
        cluster: three brokers.
        choose: what faults choose by.
        pause: the share of the usual length for which faults last.
        await_read: waits until `run` has read the records that are in the log now.
    """

    group_id = "truncated"
    log_partition = partition_for(group_id, LOG_PARTITIONS)
    """The log partition whose records are lost, and a group there."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        seed: int,
        pause: float,
        await_read: Callable[[], None],
        reloaded_at: Callable[[], datetime | None],
    ) -> None:
        self.cluster = cluster
        self.choose = random.Random(seed)
        self.pause = pause
        self.await_read = await_read
        self._reloaded_at = reloaded_at
        self._elected_at: datetime | None = None

    def begin(self) -> None:
        """Begin a fault, in which no records were lost yet."""
        self._elected_at = None

    @property
    def lost_records(self) -> bool:
        """Whether a broker that lacks records was elected."""
        return self._elected_at is not None

    def elect_instead(self, leader: int, another: int) -> None:
        """Kill the only broker, and elect another one, which lacks its last records."""
        self.cluster.brokers[leader].kill()
        self._elected_at = datetime.now(timezone.utc)
        self.cluster.brokers[another].start()
        self.await_leaders(but_not=leader)

    def await_reloaded(self) -> None:
        """Wait until `run` has reloaded the log partition after that election."""
        since = self._elected_at
        self._await(lambda: bool(since and (at := self._reloaded_at()) and at > since))

    def wait(self, seconds: float) -> None:
        """Let a fault last. No state of the cluster or of `run` ends it earlier."""
        time.sleep(seconds * self.pause)

    def leaders(self) -> dict[int, int]:
        """The leader of each log partition; -1 is none."""
        with closing(LogClient(self.cluster.bootstrap_servers)) as log:
            return {p: node_id for p, (node_id, _) in log.describe().leaders.items()}

    def await_leaders(self, but_not: int | None = None) -> None:
        """Wait until every log partition has a leader, and none has that one."""
        self._await(lambda: not {-1, but_not} & set(self.leaders().values()))

    def await_in_sync(self, brokers: set[int]) -> None:
        """Wait until exactly these brokers are in sync, for every log partition."""
        self._await(lambda: all(set(p.isrs) == brokers for p in self._described().values()))

    def whole(self) -> None:
        """Start the brokers that are down, and wait until all replicas are in sync."""
        self.cluster.start()
        self.await_in_sync(set(self.cluster.brokers))

    def move_leaders(self) -> None:
        """Make other brokers the preferred leaders, and have them elected."""
        with admin_of(self.cluster) as admin:
            moved = {
                TopicPartition(OFFSETS_TOPIC, p): [*described.replicas[1:], described.replicas[0]]
                for p, described in self._described().items()
            }
            admin.alter_partition_reassignments(moved)
            admin.elect_leaders(_PREFERRED, {OFFSETS_TOPIC: [at.partition for at in moved]})
        wanted = {at.partition: nodes[0] for at, nodes in moved.items()}
        self._await(lambda: self.leaders() == wanted)

    def allow_unclean_election(self) -> None:
        """Let a replica that lacks records lead `__consumer_offsets`."""
        config = {"unclean.leader.election.enable": (AlterConfigOp.SET, "true")}
        with admin_of(self.cluster) as admin:
            admin.alter_configs(
                [ConfigResource(ConfigResourceType.TOPIC, OFFSETS_TOPIC, configs=config)]
            )

    def commit(self, group_id: str, *offsets: int) -> None:
        """Commit offsets of a partition of orders, one after another."""
        with closing(Consumer(self._client(group_id))) as consumer:
            for offset in offsets:
                consumer.commit(offsets=[Position(ORDERS, 0, offset)], asynchronous=False)

    def commit_across_a_move(self, group_id: str, offset: int) -> None:
        """Kill the coordinator in the middle of a transaction, and commit at the next one."""
        producer = Producer(self._client() | {"transactional.id": group_id})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce(INVOICES, b"in the middle")
        with closing(Consumer(self._client(group_id))) as consumer:
            producer.send_offsets_to_transaction(
                [Position(ORDERS, 0, offset)], consumer.consumer_group_metadata(), PATIENCE_S
            )
        coordinator = self.leaders()[partition_for(group_id, LOG_PARTITIONS)]
        self.cluster.brokers[coordinator].kill()
        self.await_leaders(but_not=coordinator)
        producer.commit_transaction(PATIENCE_S)

    def _client(self, group_id: str | None = None) -> dict[str, str | int | float | bool]:
        servers = self.cluster.bootstrap_servers
        client: dict[str, str | int | float | bool] = {"bootstrap.servers": servers, "log_level": 0}
        return client if group_id is None else client | {"group.id": group_id}

    def _described(self) -> Mapping[int, PartitionMetadata]:
        topics = AdminClient(self._client()).list_topics(OFFSETS_TOPIC, timeout=_ANSWER_S).topics
        partitions: Mapping[int, PartitionMetadata] = topics[OFFSETS_TOPIC].partitions
        return partitions

    def _await(self, condition: Callable[[], bool]) -> None:
        def holds() -> bool:
            with suppress(KafkaException):  # the broker that was asked is down
                return condition()
            return False

        wait_until(holds, PATIENCE_S)
