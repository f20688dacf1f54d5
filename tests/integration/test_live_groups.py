"""The statuses of groups of real clients on a real broker: healthy ones, and some that break.

All groups live at the same time beside one `run`, each in a thread of its own. They do what depends
on a client or a broker. `unit/local/test_scenarios.py` has groups of every other kind.
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
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaConsumer

from streaming.errors import ConfigurationError
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from tests.support.brokers.running_query import running
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

_LASTS_S: Final = 135.0
_SAMPLED_AFTER_S: Final = 30.0
"""On a busy machine the first evaluation may come before the first samples of the new logs."""
_BREAKS_AT_S: Final = 55.0
_WITHIN_S: Final = 70.0
_LOOK_S: Final = 2.0
_TICK_S: Final = 0.25
_PER_TICK: Final = 5
_POLL_MS: Final = 200
"""A consumer of kafka-python that polls for 0 ms joins its group anew in each poll."""
_ANSWER_S: Final = 30.0
_LATE: Final = (
    *("nothing written since", "behind __consumer_offsets", "the log end was sampled"),
    "the delay of the tables is unknown",
)


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


def _properties(config: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in config.items()}


def _produce(producer: Producer, topic: str, records: int = _PER_TICK, partition: int = 0) -> None:
    for _ in range(records):
        producer.produce(topic, b"record", partition=partition)
    assert producer.flush(_ANSWER_S) == 0


def _poll(consumer: Consumer, records: int = 100) -> int:
    """The number of records that were read; errors and lost partitions come as messages, too."""
    return sum(not message.error() for message in consumer.consume(records, 0))


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
        if replaced < 4 and seconds > 20 + 8 * replaced:
            members[replaced].close()
            members[replaced] = live.consumer(name, name)
            replaced += 1
    for member in members:
        member.close()


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


class Group(NamedTuple):
    """A group, by its actor, and its right statuses."""

    act: Actor
    broken: Collection[str] = ("OK",)
    """Those of a group that has been broken for `_WITHIN_S`."""
    until: Collection[str] = ()
    """Those until then, beside `OK` and `broken`."""


_GROUPS: Final = {
    "classic": Group(commits_by_itself()),
    "cooperative": Group(commits_by_itself(partition_assignment_strategy="cooperative-sticky")),
    "kip-848": Group(commits_by_itself(group_protocol="consumer")),
    "kafka-python": Group(other_client),
    "aborted-tail": Group(ends_with_aborted_records),
    "transactions": Group(reads_transactions),
    "deployed": Group(is_deployed),
    "stuck": Group(stops_polling, ["STOP"]),
    "poisoned": Group(is_poisoned, ["STOP", "STALL"], until=["REBALANCING_LOOP"]),
    "topic-recreated": Group(gets_a_new_topic, until=["TOPIC_GONE", "OUT_OF_RANGE"]),
}


class Look(NamedTuple):
    """The status of a group in the tables at a moment."""

    seconds: float
    status: str
    reason: str

    @property
    def is_late(self) -> bool:
        """Whether `run` came too late for a verdict, as on a machine that stalls."""
        return self.status == "UNKNOWN" and any(text in self.reason for text in _LATE)


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
            _look(tables, live, statuses)
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
    if seconds > _BREAKS_AT_S + _WITHIN_S:
        return {*group.broken}
    return {"OK", *group.broken, *group.until}


@pytest.mark.parametrize("name", _GROUPS)
def test_a_group_of_real_clients_has_the_right_status(
    name: str, looks: dict[str, list[Look]]
) -> None:
    own_looks = looks[name]
    assert own_looks[-1].seconds >= _LASTS_S
    group = _GROUPS[name]
    known = [look for look in own_looks if not look.is_late]
    assert 2 * len(known) > len(own_looks)
    wrong = [look for look in known if look.status not in _right(group, look.seconds)]
    assert not wrong
