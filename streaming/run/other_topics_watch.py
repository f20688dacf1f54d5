"""Checks of the internal topics besides `__consumer_offsets`, beside a running query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from streaming.errors import ConfigurationError, LogChanged
from streaming.kafka.fetch import LogClient
from streaming.kafka.leaders import LogDescription
from streaming.run.leaderless import LeaderWatch, numbers_text
from streaming.run.other_topics import OtherTopic, OtherTopics

_RETRY_AWAITED_S: Final = 300.0
"""Until then, a topic that could not be read is tried again only if its leaders change."""


@dataclass(slots=True)
class OtherTopicsWatch:
    """Finds the reasons to restart a query: topics that appear, and changes of their partitions.

    Args:
        new_client: makes a client of a topic, which tries each request once.
        clock: a monotonic clock in seconds.
    """

    new_client: Callable[[str], LogClient]
    clock: Callable[[], float]
    _topics: OtherTopics = field(default_factory=OtherTopics)
    _clients: dict[str, LogClient] = field(default_factory=dict)
    _began_at: float = 0.0
    _leaders: dict[str, LeaderWatch] = field(default_factory=dict)

    def begin(self, topics: OtherTopics) -> None:
        """Record that a query starts."""
        self._topics, self._began_at = topics, self.clock()
        self._leaders = {
            other_topic.log.topic: LeaderWatch(other_topic.log_partitions, self.clock)
            for other_topic in topics.followed
        }

    def reasons(self) -> Iterator[str]:
        """Yield the reasons; a topic that cannot be checked now has none."""
        for topic, before in sorted(self._topics.awaited.items()):
            # If it was recreated, the next check has a new client.
            with suppress(LogChanged):
                log = self._refreshed(topic)
                is_due = self.clock() - self._began_at >= _RETRY_AWAITED_S
                if log is not None and log.with_leader and (log.leaders != before or is_due):
                    yield f"topic {topic} can be read now"
        for other_topic in self._topics.followed:
            topic = other_topic.log.topic
            try:
                log = self._refreshed(topic)
            except LogChanged as error:
                yield str(error)
                continue
            if log is not None:
                yield from (f"{topic}: {reason}" for reason in self._changes(other_topic, log))

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _refreshed(self, topic: str) -> LogDescription | None:
        """The current description of a topic; None if there is none now.

        Raises:
            LogChanged: the topic was deleted and created again.
        """
        if topic not in self._clients:
            self._clients[topic] = self.new_client(topic)
        try:
            return self._clients[topic].refresh()
        except LogChanged:
            # A client refuses a topic id other than the first that it saw.
            self._clients.pop(topic).close()
            raise
        except (ConfigurationError, TimeoutError):
            return None

    def _changes(self, other_topic: OtherTopic, log: LogDescription) -> Iterator[str]:
        if log.leaders.keys() != other_topic.log.leaders.keys():
            yield f"now {len(log.leaders)} partitions, previously {len(other_topic.log.leaders)}"
        if recovered := other_topic.leaderless & log.with_leader:
            yield f"log partitions have a leader again: {numbers_text(recovered)}"
        if leaderless := self._leaders[other_topic.log.topic].leaderless(log):
            yield f"log partitions without a leader: {numbers_text(leaderless)}"
