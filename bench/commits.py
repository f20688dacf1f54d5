"""Offset commits to fill a log with: repeatable, and their outcome is known without any replay.

Groups commit for ten partitions each. Every key is committed once, in a random order, and from then
on keys come at random. Offsets go forward, but one commit of ten thousand is behind the one before
it. Every second topic has an id and is committed as version 4, the others as version 3.

Everything is done with columns: twenty million commits take a minute, and their records are never
Python objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.partitioner import DEFAULT_LOG_PARTITIONS, partition_for
from coordinator_state.primitives import write_varint
from coordinator_state.record_batch import TRANSACTIONAL_FLAG
from coordinator_state.record_batch_writer import seal_record_batch, write_control_batch
from coordinator_state.record_types import NO_LEADER_EPOCH, OFFSET_COMMIT_TYPES, RECORD_TYPES
from coordinator_state.serde import encode_key, encode_value
from streaming.broker.embedded import EmbeddedBroker

PARTITIONS_PER_GROUP: Final = 10
_TOPICS: Final = 200
_SET_BACK_ONE_OF: Final = 10_000
_STEP: Final = 1 << 20
_LEADER_EPOCHS: Final = (NO_LEADER_EPOCH, 0, 7)
_METADATA: Final = ("", "", "", "host-1", "Größe: 5 €")
"""Most commits carry no metadata."""
_OFFSET_COMMIT: Final = RECORD_TYPES[OFFSET_COMMIT_TYPES[-1]]

_RECORDS_PER_TRANSACTION: Final = 10
_PRODUCERS: Final = 100
"""Of a log partition."""
_BATCHES_AT_ONCE: Final = 10_000
_HEAD: Final = np.dtype([("version", ">i2"), ("offset", ">i8"), ("epoch", ">i4")])
"""How a value begins; metadata and the commit timestamp follow, and a topic id."""
_TIMESTAMP_BYTES: Final = 8
_TOPIC_ID_BYTES: Final = 19
"""As the one tagged field."""

Integers = npt.NDArray[np.int64]


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


@dataclass(frozen=True)
class Commits:
    """`count` commits over `key_count` keys, the same ones whenever they are asked for.

    They are a millisecond apart, the first at `from_ms`; a broker forgets offsets older than
    `offsets.retention.minutes`. `batch_records` of them make a batch. With `in_transactions` each
    batch is a transaction, of ten commits, and every tenth is aborted.
    """

    count: int
    key_count: int
    from_ms: int
    seed: int = 0
    in_transactions: bool = False
    log_partitions: int = DEFAULT_LOG_PARTITIONS
    batch_records: int = 100

    @property
    def records(self) -> int:
        """Of all logs, markers included."""
        batches = sum(-(-len(commits) // self._batch_records) for commits in self._by_log_partition)
        return self.count + (batches if self.in_transactions else 0)

    @cached_property
    def last(self) -> dict[OffsetKey, Committed]:
        """What a coordinator that loaded them all would answer."""
        last = np.full(self.key_count, -1)
        is_committed = np.ones(self.count, dtype=np.bool_)
        if self.in_transactions:
            for commits in self._by_log_partition:
                is_committed[commits] = ~_is_aborted(np.arange(len(commits)) // self._batch_records)
        last[self._key_numbers[is_committed]] = np.flatnonzero(is_committed)
        return {
            self.keys[number]: self._committed(commit)
            for number, commit in enumerate(last.tolist())
            if commit >= 0
        }

    def logs(self) -> Iterator[tuple[int, bytes]]:
        """The record batches of each log partition, in the order of the commits."""
        for log_partition, commits in enumerate(self._by_log_partition):
            yield log_partition, b"".join(self._batches(log_partition, commits))

    @property
    def _batch_records(self) -> int:
        return _RECORDS_PER_TRANSACTION if self.in_transactions else self.batch_records

    @cached_property
    def _by_log_partition(self) -> Sequence[Integers]:
        of_group = np.array(
            [partition_for(key.group_id, self.log_partitions) for key in self.keys[::10]]
        )
        of_commit = of_group[self._key_numbers // PARTITIONS_PER_GROUP]
        order = np.argsort(of_commit, kind="stable")
        ends = np.cumsum(np.bincount(of_commit, minlength=self.log_partitions))
        return np.split(order, ends[:-1])

    @cached_property
    def keys(self) -> Sequence[OffsetKey]:
        """What is committed for, group by group."""
        return [
            OffsetKey(
                f"group-{number // PARTITIONS_PER_GROUP:06d}",
                f"topic-{number // PARTITIONS_PER_GROUP % _TOPICS:03d}",
                number % PARTITIONS_PER_GROUP,
            )
            for number in range(self.key_count)
        ]

    @cached_property
    def _key_numbers(self) -> Integers:
        first = self._generator(0).permutation(self.key_count)
        rest = self._generator(1).integers(0, self.key_count, self.count - self.key_count)
        return np.concatenate([first, rest])

    @cached_property
    def _offsets(self) -> Integers:
        """Each key's go up, and once in a while one is half of what it would be."""
        order = np.argsort(self._key_numbers, kind="stable")
        sizes = np.bincount(self._key_numbers, minlength=self.key_count)
        nth = np.empty(self.count, dtype=np.int64)
        nth[order] = np.arange(self.count) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        is_set_back = self._generator(2).integers(0, _SET_BACK_ONE_OF, self.count) == 0
        forward = nth * _STEP + self._generator(3).integers(0, _STEP, self.count)
        return np.where(is_set_back, forward // 2, forward)

    @cached_property
    def _choices(self) -> tuple[Integers, Integers]:
        """Of leader epochs and metadata."""
        return (
            self._generator(4).integers(0, len(_LEADER_EPOCHS), self.count),
            self._generator(5).integers(0, len(_METADATA), self.count),
        )

    def _generator(self, number: int) -> np.random.Generator:
        """One for each column, so that fewer commits are the first ones of more."""
        return np.random.default_rng((self.seed, number))

    def _committed(self, commit: int) -> Committed:
        epochs, metadata = self._choices
        return Committed(
            offset=int(self._offsets[commit]),
            leader_epoch=_LEADER_EPOCHS[epochs[commit]],
            metadata=_METADATA[metadata[commit]],
            commit_timestamp_ms=self.from_ms + commit,
            topic_id=_topic_id(self.keys[self._key_numbers[commit]].topic),
        )

    def _batches(self, log_partition: int, commits: Integers) -> Iterator[bytes]:
        size = self._batch_records
        at_once = size * _BATCHES_AT_ONCE
        for start in range(0, len(commits), at_once):
            some = commits[start : start + at_once]
            records = self._records(some)
            data = memoryview(records.buffers()[2])
            ends = np.frombuffer(records.buffers()[1], dtype=np.int64)[: len(some) + 1].tolist()
            for first in range(0, len(some), size):
                last = min(first + size, len(some)) - 1
                batch = (start + first) // size
                base_offset = start + first + (batch if self.in_transactions else 0)
                producer: dict[str, int] = {}
                if self.in_transactions:
                    producer_id = log_partition * _PRODUCERS + batch % _PRODUCERS
                    producer = {"producer_id": producer_id, "producer_epoch": 0}
                yield seal_record_batch(
                    base_offset,
                    data[ends[first] : ends[last + 1]],
                    records_count=last - first + 1,
                    last_offset_delta=last - first,
                    base_timestamp_ms=self.from_ms + int(some[first]),
                    max_timestamp_ms=self.from_ms + int(some[last]),
                    attributes=TRANSACTIONAL_FLAG if self.in_transactions else 0,
                    **producer,
                )
                if self.in_transactions:
                    yield write_control_batch(
                        base_offset + last - first + 1,
                        producer_id,
                        0,
                        0 if _is_aborted(batch) else 1,
                        timestamp_ms=self.from_ms + int(some[last]),
                    )

    def _records(self, commits: Integers) -> pa.Array:
        """The records of commits as bytes; every `_batch_records`th begins a batch."""
        numbers = np.arange(len(commits))
        begins = numbers - numbers % self._batch_records
        keys = self._key_numbers[commits]
        topics = keys // PARTITIONS_PER_GROUP % _TOPICS
        epochs, metadata = self._choices
        parts = metadata[commits] + len(_METADATA) * self._has_id[topics]
        heads = np.empty(len(commits), dtype=_HEAD)
        heads["version"] = 3 + self._has_id[topics]
        heads["offset"] = self._offsets[commits]
        heads["epoch"] = np.array(_LEADER_EPOCHS)[epochs[commits]]
        body = _joined(
            [
                _ATTRIBUTES.take(pa.array(numbers * 0)),
                _varints(commits - commits[begins]),
                _varints(numbers - begins),
                self._raw_keys.take(pa.array(keys)),
                _VALUE_LENGTHS.take(pa.array(parts)),
                _fixed(heads),
                _METADATA_PARTS.take(pa.array(parts)),
                _fixed((self.from_ms + commits).astype(">i8")),
                self._tails.take(pa.array(topics)),
                _NO_HEADERS.take(pa.array(numbers * 0)),
            ]
        )
        return _joined([_varints(pc.binary_length(body).to_numpy()), body])

    @cached_property
    def _raw_keys(self) -> pa.Array:
        encoded = [
            encode_key(
                _OFFSET_COMMIT,
                {"group": key.group_id, "topic": key.topic, "partition": key.partition},
            )
            for key in self.keys
        ]
        return _binaries(_varint(len(raw)) + raw for raw in encoded)

    @cached_property
    def _topic_ids(self) -> Sequence[UUID | None]:
        return [_topic_id(f"topic-{number:03d}") for number in range(_TOPICS)]

    @cached_property
    def _has_id(self) -> Integers:
        return np.array([topic_id is not None for topic_id in self._topic_ids]).astype(int)

    @cached_property
    def _tails(self) -> pa.Array:
        """What follows the commit timestamp: nothing, or the topic id as a tagged field."""
        return _binaries(
            b"" if topic_id is None else _value("", topic_id)[-_TOPIC_ID_BYTES:]
            for topic_id in self._topic_ids
        )


def put_in_front(broker: EmbeddedBroker, commits: Commits) -> None:
    """Make the commits the log of a broker, which is restarted and loads them."""
    broker.stop()
    for log_partition, log in commits.logs():
        broker.replace_log(log_partition, log)
    broker.start()


def _is_aborted(transaction: Any) -> Any:
    return transaction % 10 == 9


def _varint(number: int) -> bytes:
    out = bytearray()
    write_varint(out, number)
    return bytes(out)


def _binaries(values: Iterable[bytes]) -> pa.Array:
    return pa.array(list(values), pa.large_binary())


def _varints(numbers: Integers) -> pa.Array:
    different, places = np.unique(numbers, return_inverse=True)
    return _binaries(map(_varint, different.tolist())).take(pa.array(places))


def _fixed(values: npt.NDArray[Any]) -> pa.Array:
    size = values.dtype.itemsize
    buffers = [None, pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.binary(size), len(values), buffers).cast(pa.large_binary())


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def _topic_id(topic: str) -> UUID | None:
    has_id = int(topic.rpartition("-")[2]) % 2 == 0
    return uuid5(NAMESPACE_URL, topic) if has_id else None


def _value(metadata: str, topic_id: UUID | None) -> bytes:
    fields = {"offset": 0, "leaderEpoch": 0, "metadata": metadata, "commitTimestamp": 0}
    if topic_id is None:
        return encode_value(_OFFSET_COMMIT, 3, fields)
    return encode_value(_OFFSET_COMMIT, 4, {**fields, "topicId": topic_id})


_ATTRIBUTES = _NO_HEADERS = _binaries([b"\0"])
_VALUES = (
    [_value(text, None) for text in _METADATA],
    [_value(text, UUID(int=1)) for text in _METADATA],
)
_VALUE_LENGTHS = _binaries(_varint(len(value)) for values in _VALUES for value in values)
"""Of version 3, then of version 4, for each metadata."""
_METADATA_PARTS = _binaries(
    value[_HEAD.itemsize : len(value) - _TIMESTAMP_BYTES - tail_bytes]
    for values, tail_bytes in zip(_VALUES, (0, _TOPIC_ID_BYTES), strict=True)
    for value in values
)
"""Metadata with its length, in the same order."""
