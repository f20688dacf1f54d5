"""Checks that the current leaders still have the part of a log that was read (KIP-320).

After an unclean election the new leader may lack the end of the log, and write other records at the
same offsets. Its log may already have grown past a reader's next offset, so offsets alone cannot
show the loss. Leader epochs can. The logs agree up to the end of the last leader epoch that both
have, as brokers look for it (KIP-279, `AbstractFetcherThread` and `Partition.readRecords` in Kafka
4.2.0).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from coordinator_state.records.record_types import NO_LEADER_EPOCH
from streaming.errors import LogTruncated
from streaming.kafka.connections import TransientFailure
from streaming.kafka.log_requests import EARLIEST, epoch_ends_request, list_offsets_request
from streaming.kafka.partition_offsets import TopicPartition


class EpochEntry(NamedTuple):
    """A leader epoch, and the record offset of its first record."""

    leader_epoch: int
    start_offset: int


class OffsetAndEpoch(NamedTuple):
    """A record offset up to which a log was read, and the epoch of the leader it was read from.

    `entries` are the last leader epochs of the records below the offset, oldest first; empty if
    they are not known. The leader's own epoch is not among them before it writes a record.
    """

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    entries: tuple[EpochEntry, ...] = ()

    def below(self, offset: int) -> OffsetAndEpoch:
        """The place at a lower offset of the same log."""
        entries = tuple(entry for entry in self.entries if entry.start_offset < offset)
        return self._replace(offset=offset, entries=entries)

    @property
    def values(self) -> list[Any]:
        """The JSON list of `of`."""
        return [self.offset, self.leader_epoch, [list(entry) for entry in self.entries]]

    @property
    def entries_json(self) -> str | None:
        """The entries as `load_progress` has them; null if they are not known."""
        return json.dumps(self.entries) if self.entries else None

    @classmethod
    def of(cls, values: Sequence[Any]) -> OffsetAndEpoch:
        """The value of a JSON list: the offset, the epoch and the entries, or less."""
        epoch = values[1] if len(values) > 1 else NO_LEADER_EPOCH
        entries = values[2] if len(values) > 2 else ()
        return cls(
            int(values[0]), int(epoch), tuple(EpochEntry(*map(int, each)) for each in entries)
        )


class Leaders(Protocol):
    """The used part of `TopicClient`; `leaders` is log partition -> (node id, leader epoch)."""

    topic: str

    @property
    def leaders(self) -> Mapping[int, tuple[int, int]]:
        """The leaders of the last metadata."""

    async def ask(
        self, log_partitions: Any, request_for: Any
    ) -> tuple[list[Any], TransientFailure | None]:
        """Send one request to each leader."""

    def check(self, error_code: int | None, subject: str) -> None:
        """Raise for an error code."""


class SeenLog:
    """Keeps the seen end of each log partition, and checks each later leader once.

    Attributes:
        seen: by log partition, the record offset at which a reader resumes, and its leader epoch.
    """

    def __init__(self) -> None:
        self.seen: Mapping[int, OffsetAndEpoch] = {}
        self._confirmed: dict[int, tuple[OffsetAndEpoch, int]] = {}

    async def require(self, leaders: Leaders) -> None:
        """Check that these leaders have the log up to the seen record offsets.

        Raises:
            TransientFailure: the metadata is stale, or a leader does not answer.
            LogTruncated: a leader's log diverged below a seen record offset.
        """
        unconfirmed = self._unconfirmed(leaders.leaders)
        if not unconfirmed:
            return
        epochs = {p: leader_epoch for p, (_, leader_epoch) in leaders.leaders.items()}
        answers, failure = await agreed_ends(leaders, unconfirmed)
        for log_partition, agreed_end in answers.items():
            seen = unconfirmed[log_partition]
            if agreed_end is not None and agreed_end < seen.offset:
                raise LogTruncated(
                    topic=leaders.topic,
                    log_partition=log_partition,
                    record_offset=seen.offset,
                    log_start=await log_offset(leaders, log_partition, EARLIEST),
                    log_end=agreed_end,
                )
            self._confirmed[log_partition] = seen, epochs[log_partition]
        if failure is not None:
            raise failure

    def _unconfirmed(self, leaders: Mapping[int, tuple[int, int]]) -> dict[int, OffsetAndEpoch]:
        unconfirmed = {}
        for log_partition, seen in self.seen.items():
            node_id, leader_epoch = leaders.get(log_partition, (-1, NO_LEADER_EPOCH))
            if NO_LEADER_EPOCH in (seen.leader_epoch, leader_epoch):
                continue
            if leader_epoch < seen.leader_epoch:
                raise TransientFailure(
                    f"log partition {log_partition}: stale metadata: leader epoch "
                    f"{leader_epoch}, but epoch {seen.leader_epoch} was already seen"
                )
            is_known = leader_epoch == seen.leader_epoch
            is_known |= self._confirmed.get(log_partition) == (seen, leader_epoch)
            if not is_known and node_id >= 0:
                unconfirmed[log_partition] = seen
        return unconfirmed


async def agreed_ends(
    leaders: Leaders, seen: Mapping[int, OffsetAndEpoch]
) -> tuple[dict[int, int | None], TransientFailure | None]:
    """Ask the leaders for the end of the common part of their logs and the records read.

    Runs within an attempt.

    A log that has the epoch of the leader that was read has all records below the offset, whatever
    the cleaner has left of the epochs before. Without entries, only the end of that epoch is
    compared.

    Returns:
        by log partition the record offset, at most the seen one, or None if its leader does not
        know; and the failure of those that are missing.
    """
    agreed: dict[int, int | None] = {}
    failure: TransientFailure | None = None
    limits = {p: at.offset for p, at in seen.items()}
    left = {p: [*at.entries] for p, at in seen.items()}
    for p, at in seen.items():
        if not at.entries or at.entries[-1].leader_epoch != at.leader_epoch:
            left[p].append(EpochEntry(at.leader_epoch, at.offset))
    epochs = {p: leaders.leaders[p][1] for p in seen}
    asking = dict(left)
    while asking:
        asked = {p: entries.pop() for p, entries in asking.items()}
        answers, failed = await leaders.ask(
            asked,
            lambda group, asked=asked: epoch_ends_request(
                leaders.topic, epochs, {p: asked[p].leader_epoch for p in group}
            ),
        )
        failure, asking = failure or failed, {}
        for data in partitions_of(answers):
            p = data.partition
            try:
                leaders.check(data.error_code, f"log partition {p}")
            except TransientFailure as error:
                failure = error
                continue
            if data.end_offset < 0:
                agreed[p] = None
            elif not seen[p].entries or data.leader_epoch == asked[p].leader_epoch:
                agreed[p] = min(limits[p], data.end_offset)
            elif left[p]:
                limits[p], asking[p] = asked[p].start_offset, left[p]
            else:
                agreed[p] = 0
    return agreed, failure


async def log_offset(leaders: Leaders, log_partition: int, timestamp: int) -> int:
    """Ask one leader for its log start or high watermark; runs within an attempt."""
    _, epoch = leaders.leaders[log_partition]
    epochs = {TopicPartition(leaders.topic, log_partition): epoch}
    answers, failure = await leaders.ask(
        [log_partition], lambda _: list_offsets_request(epochs, timestamp)
    )
    if failure is not None:
        raise failure
    (data,) = partitions_of(answers)
    leaders.check(data.error_code, f"log partition {log_partition}")
    return int(data.offset)


def partitions_of(answers: list[Any]) -> Iterator[Any]:
    """The answers about each log partition."""
    return (data for answer in answers for topic in answer.topics for data in topic.partitions)
