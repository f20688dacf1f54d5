"""What the groups of the demo do not do: a group of the new protocol, odd records and old ones.

And the progress of a share group, and members that stay while nothing is written, for as long as
one likes.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, closing
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from coordinator_state.records.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from coordinator_state.replay.partitioner import partition_for
from streaming.local.demo.groups import ORDERS, ORDERS_PARTITIONS
from tests.support.logs.logs import offset_key, offset_value
from tests.support.logs.topic_logs import share_key, share_snapshot

GROUP = "archive"
"""Of the records that no coordinator wrote."""
OLD_MS = 5 * 24 * 60 * 60 * 1000
"""How old they are: less than what makes a broker begin a new segment, which it would compact."""

_UNKNOWN_KEY = b"\x00\x63" + offset_key(GROUP, ORDERS, 0)[2:]
_PROTOCOLS = ("classic", "consumer")
_STAYS_S = 2.0
_JOIN_S = 60.0


class OddTraffic(threading.Thread):
    """Goes on until it is told to rest; a group of each protocol has a member as long as the block.

    Those members need not be polled for a day: the demo's leave their groups after five minutes.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(name="odd traffic", daemon=True)
        self.error: Exception | None = None
        self._servers: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap_servers
        }
        self._rests = threading.Event()
        self._ended = threading.Event()
        self._is_at_rest = threading.Event()
        self._delivered = 0

    def __enter__(self) -> OddTraffic:
        self.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._rests.set()
        self._ended.set()
        self.join()
        if error is None and self.error is not None:
            raise self.error

    def rest(self) -> None:
        """Return when nothing is written any more.

        Raises:
            Exception: what a client raised meanwhile.
        """
        self._rests.set()
        self._is_at_rest.wait()
        if self.error is not None:
            raise self.error

    def run(self) -> None:
        try:
            self._go_on()
        except Exception as error:  # noqa: BLE001 - the thread that ends the traffic raises it
            self.error = error
        finally:
            self._is_at_rest.set()

    def _go_on(self) -> None:
        self._create_share_state_topic()
        # Nobody else may produce into this topic.
        producer = Producer({**self._servers, "client.id": "__admin_client"})
        with ExitStack() as opened:
            staying = [
                opened.enter_context(closing(self._member(protocol))) for protocol in _PROTOCOLS
            ]
            while not self._rests.is_set():
                self._produce(producer)
                with closing(self._member(_PROTOCOLS[-1])) as leaving:
                    self._consume(*staying, leaving)
                # A consumer group gives the partitions of a member that left to the others with
                # their next heartbeats, seconds later, and writes records then.
                self._consume(*staying, least=len(ORDERS_PARTITIONS))
            self._is_at_rest.set()
            self._ended.wait()

    def _member(self, protocol: str) -> Consumer:
        member = Consumer(
            {
                **self._servers,
                "group.id": f"{protocol}-protocol",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 200,
                "max.poll.interval.ms": 24 * 60 * 60 * 1000,
            }
        )
        member.subscribe([ORDERS])
        return member

    def _consume(self, *members: Consumer, least: int = 1) -> None:
        """Until each has so many partitions at least, and some time more."""
        deadline = time.monotonic() + _JOIN_S
        until = None
        while until is None or time.monotonic() < until:
            for member in members:
                member.consume(100, 0.1)
            if until is None and all(len(member.assignment()) >= least for member in members):
                until = time.monotonic() + _STAYS_S
            if time.monotonic() > deadline:
                raise TimeoutError("a member was given no partition")

    def _create_share_state_topic(self) -> None:
        """Kafka creates it for the first share group; its Java client alone has those."""
        topic = NewTopic(SHARE_STATE_TOPIC, 1, config={"cleanup.policy": "compact"})
        admin = AdminClient(self._servers)
        try:
            admin.create_topics([topic])[SHARE_STATE_TOPIC].result(_JOIN_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def _produce(self, producer: Producer) -> None:
        """A record that cannot be read, and the tombstone of an offset that never was, long ago.

        And how far a share group was delivered.
        """
        self._delivered += 1
        snapshot = share_snapshot(self._delivered)
        producer.produce(SHARE_STATE_TOPIC, key=share_key(), value=snapshot, partition=0)
        for key, value, age_ms in (
            (_UNKNOWN_KEY, offset_value(1), 0),
            (offset_key(GROUP, ORDERS, 0), None, OLD_MS),
        ):
            producer.produce(
                OFFSETS_TOPIC,
                key=key,
                value=value,
                partition=partition_for(GROUP),
                timestamp=time.time_ns() // 1_000_000 - age_ms,
            )
        if producer.flush(_JOIN_S):
            raise TimeoutError("records for the offsets topic were not taken")
