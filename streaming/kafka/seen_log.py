"""Checks that the current leaders still have the part of a log that was read (KIP-320).

After an unclean election the new leader may lack the end of the log, and write other records at the
same offsets. Its log may already have grown past a reader's next offset, so offsets alone cannot
show the loss. Leader epochs can: in an intact log, each epoch ends at or after every record offset
that was read from its leader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from streaming.errors import LogTruncated
from streaming.kafka.connections import TransientFailure
from streaming.kafka.log_requests import EARLIEST, epoch_ends_request, list_offsets_request

NO_LEADER_EPOCH: Final = -1


class OffsetAndEpoch(NamedTuple):
    """A record offset up to which a log was read, and the epoch of the leader it was read from."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH


class Leaders(Protocol):
    """The used part of `TopicLeaders`; `leaders` is log partition -> (node id, leader epoch)."""

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
        answers, failure = await leaders.ask(
            unconfirmed,
            lambda group: epoch_ends_request(
                leaders.topic, epochs, {p: unconfirmed[p].leader_epoch for p in group}
            ),
        )
        for data in _partitions(answers):
            log_partition, seen = data.partition, unconfirmed[data.partition]
            try:
                leaders.check(data.error_code, f"log partition {log_partition}")
            except TransientFailure as error:
                failure = error
                continue
            if 0 <= data.end_offset < seen.offset:
                raise LogTruncated(
                    topic=leaders.topic,
                    log_partition=log_partition,
                    record_offset=seen.offset,
                    log_start=await log_offset(leaders, log_partition, EARLIEST),
                    log_end=data.end_offset,
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


async def log_offset(leaders: Leaders, log_partition: int, timestamp: int) -> int:
    """Ask one leader for its log start or high watermark; runs within an attempt."""
    epochs = {log_partition: leaders.leaders[log_partition][1]}
    answers, failure = await leaders.ask(
        [log_partition], lambda _: list_offsets_request(leaders.topic, epochs, timestamp)
    )
    if failure is not None:
        raise failure
    (data,) = _partitions(answers)
    leaders.check(data.error_code, f"log partition {log_partition}")
    return int(data.offset)


def _partitions(answers: list[Any]) -> Iterator[Any]:
    return (data for answer in answers for topic in answer.topics for data in topic.partitions)
