"""The topic metadata that a coordinator needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from uuid import UUID

Assigned = Mapping[UUID, frozenset[int]]
"""Partitions by topic id."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's id and number of partitions."""

    topic_id: UUID
    partitions: int


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics by name. Members may also subscribe to topics that do not exist."""

    by_name: Mapping[str, Topic] = field(default_factory=dict)

    def ids_of(self, names: Iterable[str]) -> dict[UUID, int]:
        """The number of partitions by topic id, for the topics that exist."""
        known = (self.by_name[name] for name in sorted(names) if name in self.by_name)
        return {topic.topic_id: topic.partitions for topic in known}

    def assigned(self, by_topic: Iterable[Mapping[str, object]]) -> Assigned:
        """The partitions of a consumer protocol assignment or subscription by topic id.

        Unknown topics are left out.
        """
        partitions_by_topic: dict[UUID, frozenset[int]] = {}
        for entry in by_topic:
            topic = self.by_name.get(str(entry["topic"]))
            partitions = entry["partitions"]
            if topic is not None and isinstance(partitions, list):
                known = partitions_by_topic.get(topic.topic_id, frozenset())
                partitions_by_topic[topic.topic_id] = known | frozenset(partitions)
        return partitions_by_topic

    def named(self, assigned: Assigned) -> list[dict[str, object]]:
        """An assignment in the form of the consumer protocol, by topic name."""
        names = {topic.topic_id: name for name, topic in self.by_name.items()}
        return [
            {"topic": names[topic_id], "partitions": sorted(partitions)}
            for topic_id, partitions in assigned.items()
            if topic_id in names
        ]

    def metadata_hash(self, names: Iterable[str]) -> int:
        """A hash of the subscribed topics that exist; 0 if there are none.

        Kafka's hash also covers racks. Coordinators only compare hashes, so values may differ.
        """
        known = sorted((name, self.by_name[name]) for name in names if name in self.by_name)
        if not known:
            return 0
        text = repr([(name, topic.topic_id.hex, topic.partitions) for name, topic in known])
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
