"""Offset commits to fill a log with: repeatable, and their outcome is known without any replay.

Groups commit for ten partitions each. Every key is committed once, in a random order, and from then
on keys come at random. Offsets go forward, and a hundredth of the commits sets its offset back, so
that the greatest is not always the last one. Every second topic has an id and is committed as
version 4, the others as version 3.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from coordinator_state.partitioner import partition_for
from coordinator_state.record_types import NO_LEADER_EPOCH, OFFSET_COMMIT_TYPES, RECORD_TYPES
from coordinator_state.serde import encode_key, encode_value
from streaming.broker.load_summary import OFFSETS_TOPIC

PARTITIONS_PER_GROUP = 10
_TOPICS = 200
_OFFSETS_AT_ONCE = 1 << 20
_SET_BACK_ONE_OF = 100
_LEADER_EPOCHS = (NO_LEADER_EPOCH, 0, 7)
# Most commits carry no metadata.
_METADATA = ("", "", "", "host-1", "Größe: 5 €")
_OFFSET_COMMIT = RECORD_TYPES[OFFSET_COMMIT_TYPES[-1]]

# The one client that a broker lets produce into its internal topics.
_ADMIN_CLIENT_ID = "__admin_client"
_FLUSH_TIMEOUT_S = 120.0


class OffsetKey(NamedTuple):
    """What an offset is committed for."""

    group_id: str
    topic: str
    partition: int


class Committed(NamedTuple):
    """What is committed."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    topic_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """`count` commits over `key_count` keys, the same ones whenever they are gone through.

    `dict(commits)` is what a coordinator that loaded them all would answer. They are a millisecond
    apart, the first at `from_ms`; a broker forgets offsets older than `offsets.retention.minutes`.
    """

    count: int
    key_count: int
    from_ms: int
    seed: int = 0

    def __iter__(self) -> Iterator[tuple[OffsetKey, Committed]]:
        choose = random.Random(self.seed)
        keys = [_key(number) for number in range(self.key_count)]
        choose.shuffle(keys)
        offsets = dict.fromkeys(keys, 0)
        for number in range(self.count):
            key = keys[number] if number < len(keys) else choose.choice(keys)
            is_set_back = choose.randrange(_SET_BACK_ONE_OF) == 0
            step = choose.randrange(1, _OFFSETS_AT_ONCE)
            offsets[key] = offsets[key] // 2 if is_set_back else offsets[key] + step
            yield (
                key,
                Committed(
                    offset=offsets[key],
                    leader_epoch=choose.choice(_LEADER_EPOCHS),
                    metadata=choose.choice(_METADATA),
                    commit_timestamp_ms=self.from_ms + number,
                    topic_id=_topic_id(key.topic),
                ),
            )


def produce(commits: Commits, bootstrap_servers: str, *, log_partitions: int) -> None:
    """Write the commits, in their order, into the log partitions of their groups.

    Raises:
        KafkaException: the broker did not take one of them.
    """
    errors: list[KafkaError] = []

    def remember(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            errors.append(error)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "client.id": _ADMIN_CLIENT_ID,
            "linger.ms": 50,
            # A batch that is sent again must not overtake, or the last commit is another one.
            "max.in.flight.requests.per.connection": 1,
            "delivery.report.only.error": True,
            "on_delivery": remember,
        }
    )
    places: dict[OffsetKey, tuple[int, bytes]] = {}
    for key, committed in commits:
        if key not in places:
            places[key] = partition_for(key.group_id, log_partitions), _encoded_key(key)
        log_partition, raw_key = places[key]
        _send(producer, log_partition, raw_key, _encoded_value(committed))
        if errors:
            break
    left = producer.flush(_FLUSH_TIMEOUT_S)
    if errors:
        raise KafkaException(errors[0])
    if left:
        raise KafkaException(
            KafkaError(KafkaError._TIMED_OUT, f"{left} commits were not taken in time")
        )


def _send(producer: Producer, log_partition: int, raw_key: bytes, raw_value: bytes) -> None:
    while True:
        try:
            producer.produce(OFFSETS_TOPIC, raw_value, raw_key, log_partition)
        except BufferError:  # the queue is full
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def _key(number: int) -> OffsetKey:
    group, partition = divmod(number, PARTITIONS_PER_GROUP)
    return OffsetKey(f"group-{group:06d}", f"topic-{group % _TOPICS:03d}", partition)


def _topic_id(topic: str) -> UUID | None:
    has_id = int(topic.rpartition("-")[2]) % 2 == 0
    return uuid5(NAMESPACE_URL, topic) if has_id else None


def _encoded_key(key: OffsetKey) -> bytes:
    return encode_key(
        _OFFSET_COMMIT,
        {"group": key.group_id, "topic": key.topic, "partition": key.partition},
    )


def _encoded_value(committed: Committed) -> bytes:
    fields: dict[str, Any] = {
        "offset": committed.offset,
        "leaderEpoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "commitTimestamp": committed.commit_timestamp_ms,
    }
    if committed.topic_id is None:
        return encode_value(_OFFSET_COMMIT, 3, fields)
    return encode_value(_OFFSET_COMMIT, 4, {**fields, "topicId": committed.topic_id})
