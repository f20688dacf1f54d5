"""Log partitions of an internal topic that have no leader."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from streaming.kafka.leaders import ELECTION_S, LogDescription, of_topic
from streaming.tables.topic_progress import TopicProgress

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LeaderWatch:
    """Finds log partitions that have lost their leader for longer than an election takes.

    `clock` is a monotonic clock in seconds.
    """

    log_partitions: frozenset[int]
    clock: Callable[[], float]
    _led_at: dict[int, float] = field(init=False)

    def __post_init__(self) -> None:
        self._led_at = dict.fromkeys(self.log_partitions, self.clock())

    def leaderless(self, log: LogDescription) -> set[int]:
        """The log partitions without a leader, by the current description of the topic."""
        now_s = self.clock()
        self._led_at.update(dict.fromkeys(self.log_partitions & log.with_leader, now_s))
        return {p for p, led_at in self._led_at.items() if now_s - led_at >= ELECTION_S}


def set_leaderless(progress: TopicProgress, log_partitions: Collection[int]) -> bool:
    """Set and log which log partitions of a topic are leaderless; return whether this changed."""
    if not progress.set_leaderless(log_partitions):
        return False
    if log_partitions:
        logger.warning(
            "log partitions%(of_topic)s without a leader: %(waiting)s; reading the others, and "
            "these once they have a leader",
            {"of_topic": of_topic(progress.topic), "waiting": numbers_text(log_partitions)},
        )
    return True


def numbers_text(log_partitions: Collection[int]) -> str:
    """Format the numbers of log partitions: "0, 2"."""
    return ", ".join(map(str, sorted(log_partitions)))
