"""Whether a later leader's log is the one that was read, for any elections, clean and unclean."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.kafka.connections import TransientFailure
from streaming.kafka.leader_epochs import LeaderEpochs
from streaming.kafka.seen_log import OffsetAndEpoch, agreed_ends

BROKERS = 3


class Replica:
    """The log of one broker: the leader epoch of each record, and the entries of its epochs."""

    def __init__(self) -> None:
        self.log: list[int] = []
        self.led: dict[int, int] = {}
        """Epochs in which it was the leader, maybe without a record."""

    @property
    def entries(self) -> dict[int, int]:
        """The start of each epoch; a broker drops an entry that begins where a later one does."""
        first = {epoch: self.log.index(epoch) for epoch in self.log}
        starts = self.led | first
        last = {start: epoch for epoch, start in sorted(starts.items())}
        return {epoch: start for start, epoch in last.items()}

    def lead(self, epoch: int) -> None:
        self.led[epoch] = len(self.log)

    def follow(self, leader: Replica, records: int) -> None:
        """Truncate the log to where it agrees with the leader's, and copy some records."""
        del self.log[agreement(self.log, leader.log) :]
        self.led = {epoch: at for epoch, at in self.led.items() if at < len(self.log)}
        self.log += leader.log[len(self.log) :][:records]

    def end_of(self, epoch: int) -> tuple[int, int]:
        """As `LeaderEpochFileCache.endOffsetFor` of Kafka 4.2.0."""
        entries = self.entries
        later = sorted(each for each in entries if each > epoch)
        if epoch < 0 or not entries or (not later and epoch not in entries):
            return -1, -1
        if not later:
            return epoch, len(self.log)
        earlier = [each for each in entries if each <= epoch]
        return max(earlier, default=epoch), entries[later[0]]


def agreement(log: list[int], other: list[int]) -> int:
    """The number of records that two logs have in common; an epoch has one leader."""
    pairs = zip(log, other, strict=False)
    differing = (at for at, (epoch, other_epoch) in enumerate(pairs) if epoch != other_epoch)
    return next(differing, min(len(log), len(other)))


def result_of(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never waits."""
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    return ended.value.value


class MemoryLeaders:
    """One log partition whose leader is a replica."""

    topic = "__consumer_offsets"

    def __init__(self, replica: Replica, epoch: int) -> None:
        self.leaders = {0: (1, epoch)}
        self.replica = replica
        self.requests = 0

    async def ask(
        self, log_partitions: Iterable[int], request_for: Callable[[list[int]], Any]
    ) -> tuple[list[Any], TransientFailure | None]:
        partitions = []
        self.requests += 1
        for asked in (
            request_for(list(log_partitions)).topics[0].partitions if log_partitions else ()
        ):
            epoch, end = self.replica.end_of(asked.leader_epoch)
            partitions.append(
                SimpleNamespace(partition=0, error_code=0, leader_epoch=epoch, end_offset=end)
            )
        return [SimpleNamespace(topics=[SimpleNamespace(partitions=partitions)])], None

    def check(self, error_code: int | None, subject: str) -> None:
        assert not error_code, subject


@given(st.randoms(use_true_random=False))
def test_a_log_is_the_one_that_was_read_up_to_where_they_diverged(random: Random) -> None:
    replicas = [Replica() for _ in range(BROKERS)]
    leader, epoch = replicas[0], 0
    leader.lead(epoch)
    known = LeaderEpochs()
    read: list[tuple[list[int], OffsetAndEpoch]] = []
    for _ in range(60):
        (kind,) = random.choices(["elect", "write", "replicate", "read"], [2, 4, 5, 3])
        number, size = random.randrange(BROKERS), random.randint(0, 3)
        if kind == "elect":
            leader, epoch = replicas[number], epoch + 1
            leader.lead(epoch)
        elif kind == "write":
            leader.log += [epoch] * size
        elif kind == "replicate" and replicas[number] is not leader:
            replicas[number].follow(leader, size)
        elif kind == "read":
            end = OffsetAndEpoch(max(len(leader.log) - size, 0), epoch)
            result_of(known.look_up(MemoryLeaders(leader, epoch), {0: end}))
            end = end._replace(entries=known.below(0, end))
            epochs = dict.fromkeys(leader.log[: end.offset])
            assert [entry.leader_epoch for entry in end.entries] == [*epochs][-3:]
            assert all(leader.log.index(each) == start for each, start in end.entries)
            read.append((leader.log[: end.offset], end))
        for records, seen in read[-5:] if kind != "read" else ():
            if seen.leader_epoch == epoch or not seen.entries:
                continue
            answers, failure = result_of(agreed_ends(MemoryLeaders(leader, epoch), {0: seen}))
            assert failure is None
            true_end = agreement(records, leader.log)
            # Further back than the known entries, nothing of the log counts.
            is_known = true_end > seen.entries[0].start_offset or seen.entries[0].start_offset == 0
            assert answers == {0: true_end if is_known else 0}


def test_a_leader_is_asked_about_few_epochs_and_once() -> None:
    replica, known = Replica(), LeaderEpochs()
    for epoch in range(50):
        replica.lead(epoch)
        replica.log += [epoch] * 10
    leaders = MemoryLeaders(replica, 49)
    for offset, requests, newest in ((500, 3, 49), (500, 3, 49), (470, 6, 46), (5, 20, None)):
        end = OffsetAndEpoch(offset, 49)
        if not known.has(0, end):
            result_of(known.look_up(leaders, {0: end}))
        assert leaders.requests == requests
        epochs = [epoch for epoch, _ in known.below(0, end)]
        assert epochs == ([] if newest is None else [newest - 2, newest - 1, newest])
