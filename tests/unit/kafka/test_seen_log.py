"""Whether leaders still have what was seen of a log, against leaders in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from streaming.errors import LogTruncated
from streaming.kafka.connections import TransientFailure
from streaming.kafka.seen_log import EpochEntry, OffsetAndEpoch, SeenLog

LOG_START = 3


class MemoryLeaders:
    """Leaders of log partitions 0 and 1: what each of them answers, and what it was asked."""

    topic = "__consumer_offsets"

    def __init__(self, leaders: dict[int, tuple[int, int]], ends: dict[int, int]) -> None:
        self.leaders = leaders
        self.ends = ends
        self.error_code = 0
        self.answered: dict[int, int] = {}
        """The last epoch up to the asked one, if it is another."""
        self.asked: list[dict[int, tuple[int, int]]] = []

    async def ask(
        self, log_partitions: Iterable[int], request_for: Callable[[list[int]], Any]
    ) -> tuple[list[Any], TransientFailure | None]:
        request = request_for(list(log_partitions))
        (topic,) = request.topics
        if not isinstance(request, OffsetForLeaderEpochRequest):
            data = SimpleNamespace(error_code=0, offset=LOG_START)
            return [SimpleNamespace(topics=[SimpleNamespace(partitions=[data])])], None
        self.asked.append(
            {p.partition: (p.current_leader_epoch, p.leader_epoch) for p in topic.partitions}
        )
        answers = [
            SimpleNamespace(
                partition=p.partition,
                error_code=self.error_code,
                leader_epoch=self.answered.get(p.partition, p.leader_epoch),
                end_offset=self.ends[p.partition],
            )
            for p in topic.partitions
        ]
        return [SimpleNamespace(topics=[SimpleNamespace(partitions=answers)])], None

    def check(self, error_code: int | None, subject: str) -> None:
        if error_code:
            raise TransientFailure(f"{subject}: {error_code}")


def seen_log(**seen: tuple[int, int]) -> SeenLog:
    log = SeenLog()
    log.seen = {int(p[1:]): OffsetAndEpoch(*at) for p, at in seen.items()}
    return log


def require(log: SeenLog, leaders: MemoryLeaders) -> None:
    asyncio.run(log.require(leaders))


def test_leaders_of_the_seen_epoch_are_not_asked() -> None:
    leaders = MemoryLeaders({0: (1, 5), 1: (2, 7)}, {})
    require(seen_log(p0=(10, 5), p1=(4, 7)), leaders)
    assert leaders.asked == []


def test_a_later_leader_is_asked_once() -> None:
    leaders = MemoryLeaders({0: (1, 6), 1: (2, 7)}, {0: 10})
    log = seen_log(p0=(10, 5), p1=(4, 7))
    require(log, leaders)
    require(log, leaders)
    assert leaders.asked == [{0: (6, 5)}]
    leaders.leaders[0] = (3, 8)
    require(log, leaders)
    assert leaders.asked[1:] == [{0: (8, 5)}]


def test_an_epoch_that_ended_below_what_was_seen_is_a_truncated_log() -> None:
    """However far the log of the later leader has grown by now."""
    leaders = MemoryLeaders({0: (1, 6), 1: (2, 7)}, {0: 8})
    with pytest.raises(LogTruncated, match=r"offsets 8 to 9 are lost, .* truncated to 8") as gone:
        require(seen_log(p0=(10, 5)), leaders)
    assert (gone.value.log_partition, gone.value.log_start) == (0, LOG_START)


def test_a_leader_with_the_epoch_of_the_leader_before_has_all_that_was_read() -> None:
    """In a load. The cleaner has removed all records of epoch 3 before this leader copied them."""
    leaders = MemoryLeaders({0: (1, 6), 1: (2, 7)}, {0: 900})
    log = SeenLog()
    log.seen = {0: OffsetAndEpoch(250, 5, (EpochEntry(2, 100), EpochEntry(3, 200)))}
    require(log, leaders)
    assert leaders.asked == [{0: (6, 5)}]


def test_metadata_older_than_what_was_seen_is_not_used() -> None:
    """It is that of a broker which was stalled, and may still believe that it leads."""
    leaders = MemoryLeaders({0: (1, 4)}, {})
    with pytest.raises(
        TransientFailure, match="stale metadata: leader epoch 4, but epoch 5 was already"
    ):
        require(seen_log(p0=(10, 5)), leaders)


def test_a_leader_that_does_not_answer_is_asked_again() -> None:
    leaders = MemoryLeaders({0: (1, 6), 1: (2, 9)}, {0: 10, 1: 4})
    log = seen_log(p0=(10, 5), p1=(4, 7))
    leaders.error_code = 74
    with pytest.raises(TransientFailure, match="log partition 1: 74"):
        require(log, leaders)
    leaders.error_code = 0
    require(log, leaders)
    assert leaders.asked == [{0: (6, 5), 1: (9, 7)}] * 2


@pytest.mark.parametrize("leaders", [{0: (-1, 6)}, {0: (1, -1)}, {}])
def test_who_cannot_answer_is_not_asked(leaders: dict[int, tuple[int, int]]) -> None:
    """No leader now, brokers that tell no epochs, a log partition that is not there."""
    nobody = MemoryLeaders(leaders, {})
    require(seen_log(p0=(10, 5)), nobody)
    assert nobody.asked == []


def test_what_was_seen_without_an_epoch_proves_nothing() -> None:
    leaders = MemoryLeaders({0: (1, 6)}, {})
    require(seen_log(p0=(10, -1)), leaders)
    assert leaders.asked == []
