"""The partitions that a plan is for, as a user names them: TOPIC or TOPIC:PARTITION."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from coordinator_state.replay.offsets import OffsetKey
from streaming.errors import ConfigurationError, did_you_mean
from streaming.kafka.partition_offsets import TopicPartition

_MAX_PARTITION: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Whole topics, and single partitions; everything if both are empty."""

    topics: frozenset[str] = frozenset()
    partitions: frozenset[TopicPartition] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> TopicSelection:
        """Parse TOPIC and TOPIC:PARTITION; a topic name has no colon.

        >>> TopicSelection.of(["orders:1"]).partitions
        frozenset({TopicPartition(topic='orders', partition=1)})

        Raises:
            ConfigurationError: a text is neither.
        """
        topics, partitions = set(), set()
        for name in names:
            topic, colon, partition = name.partition(":")
            if not topic or (colon and not _is_partition(partition)):
                raise ConfigurationError(f"{name!r} is neither TOPIC nor TOPIC:PARTITION")
            if colon:
                partitions.add(TopicPartition(topic, int(partition)))
            else:
                topics.add(topic)
        return cls(frozenset(topics), frozenset(partitions))

    def selected(self, group_id: str, known: Iterable[OffsetKey]) -> list[OffsetKey]:
        """The keys of a group to plan, sorted: the known ones that are selected, and those named.

        Raises:
            ConfigurationError: the group has no offset of a selected topic.
        """
        keys = {OffsetKey(group_id, key.topic, key.partition) for key in known}
        if not self.topics and not self.partitions:
            return sorted(keys)
        names = {key.topic for key in keys}
        for topic in sorted(self.topics - names):
            hint = did_you_mean(topic, names)
            raise ConfigurationError(f"{group_id} has no committed offset of {topic}{hint}")
        of_topics = {key for key in keys if key.topic in self.topics}
        named = {OffsetKey(group_id, *place) for place in self.partitions}
        return sorted(of_topics | named)


def _is_partition(text: str) -> bool:
    """Whether a text is a number that Kafka can give a partition."""
    is_short = text.isascii() and text.isdecimal() and len(text) <= len(str(_MAX_PARTITION))
    return is_short and int(text) <= _MAX_PARTITION


EVERYTHING: Final = TopicSelection()
