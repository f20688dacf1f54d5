"""The statuses of groups of real clients on a real broker: healthy ones, and some that break.

All groups live at the same time beside one `run`, each in a thread of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from kafka import KafkaConsumer

from streaming.errors import ConfigurationError
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from tests.support.brokers.running_query import running
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

_LASTS_S: Final = 160.0
_SAMPLED_AFTER_S: Final = 30.0
"""On a busy machine the first evaluation may come before the first samples of the new logs."""
_BREAKS_AT_S: Final = 70.0
_LOOK_S: Final = 2.0
_TICK_S: Final = 0.25
_PER_TICK: Final = 5
_POLL_MS: Final = 200
"""A consumer of kafka-python that polls for 0 ms joins its group anew in each poll."""
_ANSWER_S: Final = 30.0


class Live:
    """The broker, and the time since all groups began."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker
        self.began_s = time.monotonic()
        self.stop = threading.Event()
        # The futures of an AdminClient fail once it is gone.
        self._admin = AdminClient(self.servers)

    @property
    def servers(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.broker.bootstrap_servers}

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began_s

    @property
    def is_broken(self) -> bool:
        return self.seconds >= _BREAKS_AT_S

    def ticks(self) -> Iterator[float]:
        """The seconds since the groups began, four times a second, until all groups end."""
        while not self.stop.wait(_TICK_S):
            yield self.seconds

    def create(self, topic: str, partitions: int = 1) -> None:
        request = self._admin.create_topics([NewTopic(topic, partitions, 1)])
        request[topic].result(_ANSWER_S)

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(_ANSWER_S)

    def expand(self, topic: str, partitions: int) -> None:
        request = self._admin.create_partitions([NewPartitions(topic, partitions)])
        request[topic].result(_ANSWER_S)

    def delete_records(self, topic: str, before: int) -> None:
        place = Place(topic, 0, before)
        self._admin.delete_records([place])[place].result(_ANSWER_S)

    def producer(self, **config: Any) -> Producer:
        return Producer({**self.servers, **_properties(config)})

    def consumer(self, group: str, *topics: str, **config: Any) -> Consumer:
        consumer = Consumer(
            {
                **self.servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                **_properties(config),
            }
        )
        if topics:
            consumer.subscribe([*topics])
        return consumer

    def other_consumer(self, group_and_topic: str) -> KafkaConsumer:
        """The consumer of kafka-python."""
        return KafkaConsumer(
            group_and_topic,
            bootstrap_servers=self.broker.bootstrap_servers,
            group_id=group_and_topic,
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
        )

    def alter(self, group: str, topic: str, offset: int) -> None:
        """Set an offset of a group without members, as `kafka-consumer-groups` does."""
        request = ConsumerGroupTopicPartitions(group, [Place(topic, 0, offset)])
        self._admin.alter_consumer_group_offsets([request])[group].result(_ANSWER_S)


def _properties(config: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in config.items()}


def _produce(producer: Producer, topic: str, records: int = _PER_TICK, partition: int = 0) -> None:
    for _ in range(records):
        producer.produce(topic, b"record", partition=partition)
    assert producer.flush(_ANSWER_S) == 0


def _poll(consumer: Consumer, records: int = 100) -> int:
    return len(consumer.consume(records, 0))


Actor = Callable[[Live, str], None]


def commits_by_itself(**config: Any) -> Actor:
    """It reads all, and the client commits every five seconds."""

    def act(live: Live, name: str) -> None:
        live.create(name)
        producer, consumer = live.producer(), live.consumer(name, name, **config)
        for _ in live.ticks():
            _produce(producer, name)
            _poll(consumer)
        consumer.close()

    return act


def other_client(live: Live, name: str) -> None:
    """kafka-python, not librdkafka."""
    live.create(name)
    producer, consumer = live.producer(), live.other_consumer(name)
    for _ in live.ticks():
        _produce(producer, name)
        consumer.poll(_POLL_MS)
    consumer.close()


def assigns_itself(live: Live, name: str) -> None:
    """No member: it names its partition, and commits by hand."""
    live.create(name)
    producer, consumer = live.producer(), live.consumer(name)
    consumer.assign([Place(name, 0, 0)])
    for _ in live.ticks():
        _produce(producer, name)
        if _poll(consumer):
            consumer.commit(asynchronous=False)
    consumer.close()


def commits_rarely(live: Live, name: str) -> None:
    """It commits once in 25 s, as a sink that flushes does."""
    live.create(name)
    producer = live.producer()
    consumer = live.consumer(name, name, enable_auto_commit=False)
    committed_s, position = 0.0, 0
    for seconds in live.ticks():
        _produce(producer, name)
        position += _poll(consumer)
        if position and seconds - committed_s > 25:
            consumer.commit(asynchronous=False)
            committed_s = seconds
    consumer.close()


def ends_with_aborted_records(live: Live, name: str) -> None:
    """The log ends with records of an aborted transaction, and nobody writes to it any more."""
    live.create(name)
    _produce(live.producer(), name, 50)
    aborting = live.producer(transactional_id=name)
    aborting.init_transactions(_ANSWER_S)
    aborting.begin_transaction()
    _produce(aborting, name, 20)
    aborting.abort_transaction(_ANSWER_S)
    consumer = live.consumer(name, name, isolation_level="read_committed")
    for _ in live.ticks():
        _poll(consumer)
    consumer.close()


def reads_transactions(live: Live, name: str) -> None:
    """A producer has always a transaction open, and commits it every 20 s."""
    live.create(name)
    producer = live.producer(transactional_id=name)
    producer.init_transactions(_ANSWER_S)
    producer.begin_transaction()
    consumer, begun_s = live.consumer(name, name, isolation_level="read_committed"), 0.0
    for seconds in live.ticks():
        _produce(producer, name)
        _poll(consumer)
        if seconds - begun_s > 20:
            producer.commit_transaction(_ANSWER_S)
            producer.begin_transaction()
            begun_s = seconds
    producer.abort_transaction(_ANSWER_S)
    consumer.close()


def leaves_a_topic(live: Live, name: str) -> None:
    """The consumer starts again with one of its two topics; the other goes on growing."""
    topics = [f"{name}-read", f"{name}-left"]
    for topic in topics:
        live.create(topic)
    producer, consumer, has_left = live.producer(), live.consumer(name, *topics), False
    for seconds in live.ticks():
        for topic in topics:
            _produce(producer, topic)
        _poll(consumer)
        if seconds > 40 and not has_left:
            consumer.close()
            consumer, has_left = live.consumer(name, topics[0]), True
    consumer.close()


def is_deployed(live: Live, name: str) -> None:
    """Four members are replaced one after the other."""
    live.create(name, 4)
    producer = live.producer()
    members = [live.consumer(name, name) for _ in range(4)]
    replaced = 0
    for seconds in live.ticks():
        for partition in range(4):
            _produce(producer, name, 2, partition)
        for member in members:
            _poll(member)
        if replaced < 4 and seconds > 40 + 12 * replaced:
            members[replaced].close()
            members[replaced] = live.consumer(name, name)
            replaced += 1
    for member in members:
        member.close()


def is_restarted_as_static_member(live: Live, name: str) -> None:
    live.create(name)
    producer, restarts = live.producer(), 0
    consumer = live.consumer(name, name, group_instance_id=name)
    for seconds in live.ticks():
        _produce(producer, name)
        _poll(consumer)
        if restarts < 3 and seconds > 30 * (restarts + 1):
            consumer.close()
            consumer, restarts = live.consumer(name, name, group_instance_id=name), restarts + 1
    consumer.close()


def is_killed(live: Live, name: str) -> None:
    """The process ends without a word, and records go on to arrive."""
    live.create(name)
    producer = live.producer()
    consumer = live.consumer(name)
    consumer.assign([Place(name, 0, 0)])
    for _ in live.ticks():
        _produce(producer, name)
        if not live.is_broken and _poll(consumer):
            consumer.commit(asynchronous=False)
    consumer.close()


def stops_polling(live: Live, name: str) -> None:
    """A record takes for ever: the client heartbeats until its poll interval is over."""
    live.create(name)
    producer, consumer = live.producer(), live.consumer(name, name, enable_auto_commit=False)
    for _ in live.ticks():
        _produce(producer, name)
        if not live.is_broken and _poll(consumer):
            consumer.commit(asynchronous=False)
    consumer.close()


def is_poisoned(live: Live, name: str) -> None:
    """The process crashes at a record, and starts again every ten seconds."""
    live.create(name)
    producer, started_s = live.producer(), 0.0
    consumer = live.consumer(name, name, enable_auto_commit=False, session_timeout_ms=6_000)
    for seconds in live.ticks():
        _produce(producer, name)
        if _poll(consumer) and not live.is_broken:
            consumer.commit(asynchronous=False)
        elif live.is_broken and seconds - started_s > 10:
            consumer.close()
            consumer = live.consumer(name, name, enable_auto_commit=False, session_timeout_ms=6_000)
            started_s = seconds
    consumer.close()


def loses_its_topic(live: Live, name: str) -> None:
    live.create(name)
    consumer = live.consumer(name, name)
    # A producer that remains would create the topic again.
    producer: Producer | None = live.producer()
    for _ in live.ticks():
        if producer is not None:
            _produce(producer, name)
            if live.is_broken:
                producer = None
                live.delete(name)
        _poll(consumer)
    consumer.close()


def gets_a_new_topic(live: Live, name: str) -> None:
    """Its topic is deleted and created again, while the group reads on.

    librdkafka commits nothing until the new log is longer than the deleted one was.
    """
    live.create(name)
    producer, consumer = live.producer(), live.consumer(name, name)
    per_tick = _PER_TICK
    for _ in live.ticks():
        if live.is_broken and per_tick == _PER_TICK:
            live.delete(name)
            live.create(name)
            producer, per_tick = live.producer(), 4 * _PER_TICK
        _produce(producer, name, per_tick)
        _poll(consumer)
    consumer.close()


def commits_too_late(live: Live, name: str) -> None:
    """It commits a position in the deleted topic once the new one exists, then reads that one."""
    live.create(name)
    producer, consumer = live.producer(), live.other_consumer(name)
    has_new_topic = False
    for _ in live.ticks():
        if live.is_broken and not has_new_topic:
            live.delete(name)
            live.create(name)
            consumer.commit()
            producer, has_new_topic = live.producer(), True
        _produce(producer, name)
        consumer.poll(_POLL_MS)
    consumer.close()


def never_commits(live: Live, name: str) -> None:
    """Its member comes when the others break, reads all, and commits nothing."""
    live.create(name)
    producer, consumer = live.producer(), live.consumer(name, enable_auto_commit=False)
    is_member = False
    for _ in live.ticks():
        _produce(producer, name)
        if live.is_broken and not is_member:
            consumer.subscribe([name])
            is_member = True
        if is_member:
            _poll(consumer)
    consumer.close()


def is_altered(live: Live, name: str) -> None:
    """An operator sets an offset far past the log end, while the group has no members."""
    live.create(name)
    _produce(live.producer(), name, 500)
    live.alter(name, name, 500)
    is_altered = False
    for _ in live.ticks():
        if live.is_broken and not is_altered:
            live.alter(name, name, 60_000)
            is_altered = True


def is_reset(live: Live, name: str) -> None:
    """Its consumer stops, an operator resets it to the begin, and it reads on slowly."""
    live.create(name)
    producer, consumer = live.producer(), live.consumer(name, name)
    has_reset = False
    for _ in live.ticks():
        _produce(producer, name)
        if live.is_broken and not has_reset:
            consumer.close()
            live.alter(name, name, 5)
            consumer, has_reset = live.consumer(name, name), True
        _poll(consumer, 2 if has_reset else 100)
    consumer.close()


def loses_records(live: Live, name: str) -> None:
    """Retention overtakes a group that does not read."""
    live.create(name)
    producer = live.producer()
    _produce(producer, name, 100)
    live.alter(name, name, 10)
    is_deleted = False
    for _ in live.ticks():
        if live.is_broken and not is_deleted:
            live.delete_records(name, 60)
            is_deleted = True


def gets_partitions(live: Live, name: str) -> None:
    """Its consumer has read all and ended; then the topic gets partitions, with records."""
    live.create(name)
    producer, consumer = live.producer(), live.consumer(name, name)
    _produce(producer, name, 50)
    has_read = has_more = False
    for seconds in live.ticks():
        if seconds < _BREAKS_AT_S / 2:
            _poll(consumer)
        elif not has_read:
            consumer.close()
            has_read = True
        elif live.is_broken and not has_more:
            live.expand(name, 3)
            # The other producer does not know the new partitions yet.
            producer, has_more = live.producer(), True
        elif seconds > _BREAKS_AT_S + 5:
            _produce(producer, name, 1, 2)


def is_too_slow(live: Live, name: str) -> None:
    """It reads one of five records."""
    live.create(name)
    producer, consumer = live.producer(), live.consumer(name, name)
    for _ in live.ticks():
        _produce(producer, name)
        _poll(consumer, 1 if live.is_broken else 100)
    consumer.close()


class Group(NamedTuple):
    """A group, by its actor, and its right statuses."""

    act: Actor
    broken: Collection[str] = ("OK",)
    """Those of a group that has been broken for `within_s`."""
    until: Collection[str] = ()
    """Those until then, beside `OK` and `broken`."""
    within_s: float = 70


_GROUPS: Final = {
    "classic": Group(commits_by_itself()),
    "cooperative": Group(commits_by_itself(partition_assignment_strategy="cooperative-sticky")),
    "kip-848": Group(commits_by_itself(group_protocol="consumer")),
    "kafka-python": Group(other_client),
    "simple": Group(assigns_itself),
    "rare": Group(commits_rarely),
    "aborted-tail": Group(ends_with_aborted_records),
    "transactions": Group(reads_transactions),
    "leaves": Group(leaves_a_topic),
    "deployed": Group(is_deployed),
    "static": Group(is_restarted_as_static_member),
    "killed": Group(is_killed, ["STOP"]),
    "stuck": Group(stops_polling, ["STOP"]),
    "poisoned": Group(is_poisoned, ["STOP", "STALL"], until=["REBALANCING_LOOP"]),
    "topic-deleted": Group(loses_its_topic, ["TOPIC_GONE"]),
    "topic-recreated": Group(gets_a_new_topic, until=["TOPIC_GONE", "OUT_OF_RANGE"]),
    "late-commit": Group(commits_too_late, until=["TOPIC_GONE", "OUT_OF_RANGE"], within_s=40),
    "never-commits": Group(never_commits, ["WARN"], until=["UNKNOWN"]),
    "altered": Group(is_altered, ["OUT_OF_RANGE"]),
    "reset": Group(is_reset, ["REWIND"]),
    "records-deleted": Group(loses_records, ["DATA_LOSS"]),
    "more-partitions": Group(gets_partitions, ["WARN"]),
    "slow": Group(is_too_slow, ["WARN"], within_s=80),
}


class Look(NamedTuple):
    """The status of a group in the tables at a moment."""

    seconds: float
    status: str
    reason: str


@contextmanager
def _alive(live: Live) -> Iterator[Callable[[float], None]]:
    """All groups act while the block runs; gives a function that waits, and ends if one fails."""
    with ThreadPoolExecutor(len(_GROUPS)) as pool:
        acting = [pool.submit(group.act, live, f"live-{name}") for name, group in _GROUPS.items()]

        def pause(seconds: float) -> None:
            for future in wait(acting, seconds, FIRST_COMPLETED).done:
                future.result()

        try:
            yield pause
        finally:
            live.stop.set()
        for future in acting:
            future.result()


@pytest.fixture(scope="module")
def looks(
    broker: EmbeddedBroker,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    eventually: Eventually,
) -> dict[str, list[Look]]:
    """The statuses of each group, every two seconds."""
    statuses: dict[str, list[Look]] = {name: [] for name in _GROUPS}
    folder = tmp_path_factory.mktemp("live")
    with running(broker, spark, folder, eventually) as tables:
        live = Live(broker)
        with _alive(live) as pause:
            while live.seconds < _LASTS_S:
                _look(tables, live, statuses)
                pause(_LOOK_S)
    return statuses


def _look(tables: Path, live: Live, statuses: dict[str, list[Look]]) -> None:
    with suppress(ConfigurationError):
        rows = TableReader(tables).read("group_status", ["group_id", "status", "reason"])
        for row in rows.to_pylist():
            name = row["group_id"].removeprefix("live-")
            if name in statuses:
                statuses[name].append(Look(live.seconds, row["status"], row["reason"]))


def _right(group: Group, seconds: float) -> set[str]:
    """The statuses that an engineer on call would call right at that time."""
    if seconds < _SAMPLED_AFTER_S:
        return {"OK", "UNKNOWN"}
    if seconds < _BREAKS_AT_S:
        return {"OK"}
    if seconds > _BREAKS_AT_S + group.within_s:
        return {*group.broken}
    return {"OK", *group.broken, *group.until}


@pytest.mark.parametrize("name", _GROUPS)
def test_a_group_of_real_clients_has_the_right_status(
    name: str, looks: dict[str, list[Look]]
) -> None:
    own_looks = looks[name]
    assert own_looks[-1].seconds > _LASTS_S - 5 * _LOOK_S
    group = _GROUPS[name]
    wrong = [look for look in own_looks if look.status not in _right(group, look.seconds)]
    assert not wrong
