"""Generates millions of offset commits. They are repeatable, and their outcome is known.

Each group commits offsets for ten partitions. First every key is committed once, in random order.
The remaining commits have random keys. Committed offsets go forward, except that about one commit
in 10,000 goes back. Every second topic has an id and is committed as version 4, the others as
version 3.

For speed, a compiled loop writes the records, and no commit becomes a Python object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np
import numpy.typing as npt

from coordinator_state.log.kernel import commit_writer
from coordinator_state.log.kernel.checksum import crc32c_tables
from coordinator_state.log.kernel.numbers import Bytes, Integers
from coordinator_state.log.record_set import BATCH_HEADER_BYTES
from coordinator_state.records.record_types import (
    NO_LEADER_EPOCH,
    OFFSET_COMMIT_TYPES,
    RECORD_TYPES,
)
from coordinator_state.records.serde import encode_key, encode_value
from coordinator_state.replay.offsets import CONTROL_TYPE_ABORT, CONTROL_TYPE_COMMIT, OffsetKey
from coordinator_state.replay.partitioner import DEFAULT_LOG_PARTITIONS, partition_for

PARTITIONS_PER_GROUP: Final = 10
_TOPICS: Final = 200
_SET_BACK_ONE_OF: Final = 10_000
_STEP: Final = 1 << 20
_LEADER_EPOCHS: Final = (NO_LEADER_EPOCH, 0, 7)
_METADATA: Final = ("", "", "", "host-1", "Größe: 5 €")
"""Most commits have no metadata."""
_OFFSET_COMMIT: Final = RECORD_TYPES[OFFSET_COMMIT_TYPES[-1]]
_VALUE_HEAD_BYTES: Final = 14
"""The bytes of version, offset and leader epoch."""
_TIMESTAMP_BYTES: Final = 8
_TOPIC_ID_BYTES: Final = 19
"""The topic id as the only tagged field."""

_RECORDS_PER_TRANSACTION: Final = 10
_PRODUCERS: Final = 100
"""Producers per log partition."""
_ABORTED_ONE_OF: Final = 10
_COMMITS_AT_ONCE: Final = 1_000_000


class Committed(NamedTuple):
    """The value of a commit."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    topic_id: UUID | None


@dataclass(frozen=True)
class PlainCommits:
    """`count` commits of `key_count` keys; the same settings give the same commits.

    Commits are 1 ms apart, starting at `from_ms`. A broker expires offsets older than
    `offsets.retention.minutes`. A batch has `batch_records` commits. With `in_transactions`, each
    batch is a transaction of ten commits instead, and every tenth transaction is aborted. After the
    first commit of each key, `busy_share` of the commits are in the log partition of the first
    group, whatever the other commits are.
    """

    count: int
    key_count: int
    from_ms: int
    seed: int = 0
    in_transactions: bool = False
    log_partitions: int = DEFAULT_LOG_PARTITIONS
    batch_records: int = 100
    busy_share: float = 0.0

    @property
    def records(self) -> int:
        """The number of records in all log partitions, including markers."""
        return sum(map(self.next_offset, range(self.log_partitions)))

    def next_offset(self, log_partition: int) -> int:
        """The next offset after the last record of a log partition."""
        commits = len(self._by_log_partition[log_partition])
        return commits + (-(-commits // self._batch_records) if self.in_transactions else 0)

    @cached_property
    def last(self) -> dict[OffsetKey, Committed]:
        """The committed offsets of a coordinator after it loaded all commits."""
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
        """The record batches of each log partition, in commit order."""
        for log_partition, commits in enumerate(self._by_log_partition):
            yield log_partition, b"".join(self._batches(log_partition, commits))

    @property
    def _batch_records(self) -> int:
        return _RECORDS_PER_TRANSACTION if self.in_transactions else self.batch_records

    @cached_property
    def _by_log_partition(self) -> Sequence[Integers]:
        log_partition_by_commit = self._by_group[self._key_numbers // PARTITIONS_PER_GROUP]
        order = np.argsort(log_partition_by_commit, kind="stable")
        ends = np.cumsum(np.bincount(log_partition_by_commit, minlength=self.log_partitions))
        return np.split(order, ends[:-1])

    @cached_property
    def _by_group(self) -> Integers:
        """The log partition of each group."""
        group_ids = [key.group_id for key in self.keys[::PARTITIONS_PER_GROUP]]
        log_partitions = [partition_for(group_id, self.log_partitions) for group_id in group_ids]
        return np.array(log_partitions, dtype=np.uint16)

    @cached_property
    def keys(self) -> Sequence[OffsetKey]:
        """The keys of the commits, group by group."""
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
        rest = self._generator(1).integers(0, self.key_count, max(self.count - self.key_count, 0))
        if self.busy_share:
            log_partition_by_key = self._by_group.repeat(PARTITIONS_PER_GROUP)[: self.key_count]
            busy_keys = np.flatnonzero(log_partition_by_key == log_partition_by_key[0])
            is_busy = self._generator(6).random(len(rest)) < self.busy_share
            rest = np.where(is_busy, busy_keys[rest % len(busy_keys)], rest)
        return np.concatenate([first, rest])[: self.count]

    @cached_property
    def _offsets(self) -> Integers:
        """The committed offset of each commit.

        They grow for each key, except that about one in 10,000 is halved.
        """
        nth = commit_writer.numbered_by_key(self._key_numbers, self.key_count)
        is_set_back = self._generator(2).integers(0, _SET_BACK_ONE_OF, self.count) == 0
        forward = nth * _STEP + self._generator(3).integers(0, _STEP, self.count)
        return np.where(is_set_back, forward // 2, forward)

    @cached_property
    def _choices(self) -> tuple[Integers, Integers]:
        """The indices of each commit's leader epoch and metadata."""
        return (
            self._generator(4).integers(0, len(_LEADER_EPOCHS), self.count),
            self._generator(5).integers(0, len(_METADATA), self.count),
        )

    def _generator(self, number: int) -> np.random.Generator:
        """A separate generator for each column.

        A smaller `count` then gives the first commits of a larger one.
        """
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
        at_once = _COMMITS_AT_ONCE // size * size
        base_offset = 0
        for start in range(0, len(commits), at_once):
            chunk = commits[start : start + at_once]
            batches = np.arange(start // size, start // size - (-len(chunk) // size))
            if not self.in_transactions:
                batches = batches[:0]
            raw, base_offset = self._written(chunk, batches, base_offset, log_partition)
            yield raw

    def _written(
        self, commits: Integers, transactions: Integers, base_offset: int, log_partition: int
    ) -> tuple[bytes, int]:
        size = (commit_writer.MOST_RECORD_OVERHEAD_BYTES + self._most_variable_bytes) * len(commits)
        size += (len(commits) // self._batch_records + 1) * (
            BATCH_HEADER_BYTES + commit_writer.MARKER_BYTES
        )
        out = np.empty(size, dtype=np.uint8)
        written, next_offset = commit_writer.write_commits(
            self._columns(commits),
            *self._parts,
            self._batch_records,
            base_offset,
            _transaction_columns(transactions, log_partition),
            _CRC_TABLES,
            out,
        )
        return out[:written].tobytes(), next_offset

    def _columns(self, commits: Integers) -> Integers:
        keys = self._key_numbers[commits]
        topics = keys // PARTITIONS_PER_GROUP % _TOPICS
        epochs, metadata = self._choices
        has_id = _HAS_ID[topics]
        columns = np.empty((commit_writer.COMMIT_COLUMNS, len(commits)), dtype=np.int64)
        columns[commit_writer.KEY] = _FIRST_KEY + keys
        columns[commit_writer.VERSION] = 3 + has_id
        columns[commit_writer.COMMITTED_OFFSET] = self._offsets[commits]
        columns[commit_writer.LEADER_EPOCH] = np.array(_LEADER_EPOCHS)[epochs[commits]]
        columns[commit_writer.METADATA] = metadata[commits] + len(_METADATA) * has_id
        columns[commit_writer.TIMESTAMP] = self.from_ms + commits
        columns[commit_writer.TAIL] = _FIRST_TAIL + topics
        return columns

    @cached_property
    def _most_variable_bytes(self) -> int:
        _, starts = self._parts
        of_kinds = np.split(np.diff(starts), [_FIRST_TAIL, _FIRST_KEY])
        return sum(int(lengths.max()) for lengths in of_kinds)

    @cached_property
    def _parts(self) -> tuple[Bytes, Integers]:
        """Metadata, tails and keys in one buffer, the start of each, and the end of the last."""
        parts = [*_METADATA_PARTS, *_TAILS]
        parts += (
            encode_key(
                _OFFSET_COMMIT,
                {"group": key.group_id, "topic": key.topic, "partition": key.partition},
            )
            for key in self.keys
        )
        starts = np.cumsum([0, *map(len, parts)])
        return np.frombuffer(b"".join(parts), dtype=np.uint8), starts


def _is_aborted(transaction: Any) -> Any:
    return transaction % _ABORTED_ONE_OF == _ABORTED_ONE_OF - 1


def _transaction_columns(transactions: Integers, log_partition: int) -> Integers:
    control_types = np.where(_is_aborted(transactions), CONTROL_TYPE_ABORT, CONTROL_TYPE_COMMIT)
    columns = np.empty((commit_writer.TRANSACTION_COLUMNS, len(transactions)), dtype=np.int64)
    columns[commit_writer.PRODUCER_ID] = log_partition * _PRODUCERS + transactions % _PRODUCERS
    columns[commit_writer.CONTROL_TYPE] = control_types
    return columns


def _topic_id(topic: str) -> UUID | None:
    has_id = int(topic.rpartition("-")[2]) % 2 == 0
    return uuid5(NAMESPACE_URL, topic) if has_id else None


def _value(metadata: str, topic_id: UUID | None) -> bytes:
    fields = {"offset": 0, "leaderEpoch": 0, "metadata": metadata, "commitTimestamp": 0}
    if topic_id is None:
        return encode_value(_OFFSET_COMMIT, 3, fields)
    return encode_value(_OFFSET_COMMIT, 4, {**fields, "topicId": topic_id})


_CRC_TABLES: Final = crc32c_tables()
_TOPIC_IDS: Final = [_topic_id(f"topic-{number:03d}") for number in range(_TOPICS)]
_HAS_ID: Final[npt.NDArray[np.int64]] = np.array([int(t is not None) for t in _TOPIC_IDS])
_METADATA_PARTS: Final = [
    _value(text, topic_id)[_VALUE_HEAD_BYTES : -_TIMESTAMP_BYTES - tail_bytes]
    for topic_id, tail_bytes in ((None, 0), (UUID(int=1), _TOPIC_ID_BYTES))
    for text in _METADATA
]
"""Metadata with its length prefix, first all encoded for version 3, then for version 4."""
_TAILS: Final = [
    b"" if topic_id is None else _value("", topic_id)[-_TOPIC_ID_BYTES:] for topic_id in _TOPIC_IDS
]
"""The bytes after the commit timestamp: none, or the topic id as a tagged field."""
_FIRST_TAIL: Final = len(_METADATA_PARTS)
_FIRST_KEY: Final = _FIRST_TAIL + len(_TAILS)
