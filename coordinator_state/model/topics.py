"""The topics of a cluster, as far as a coordinator asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from uuid import UUID

Assigned = Mapping[UUID, frozenset[int]]
"""Partitions by topic id."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's id and how many partitions it has."""

    topic_id: UUID
    partitions: int


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics by name; one that is not there may be subscribed to all the same."""

    by_name: Mapping[str, Topic] = field(default_factory=dict)

    def ids_of(self, names: Iterable[str]) -> dict[UUID, int]:
        """Ids of topics that there are, and how many partitions each has."""
        known = (self.by_name[name] for name in sorted(names) if name in self.by_name)
        return {topic.topic_id: topic.partitions for topic in known}

    def assigned(self, by_topic: Iterable[Mapping[str, object]]) -> Assigned:
        """What a consumer protocol assignment or subscription names, without unknown topics."""
        found: dict[UUID, frozenset[int]] = {}
        for entry in by_topic:
            topic = self.by_name.get(str(entry["topic"]))
            partitions = entry["partitions"]
            if topic is not None and isinstance(partitions, list):
                known = found.get(topic.topic_id, frozenset())
                found[topic.topic_id] = known | frozenset(partitions)
        return found

    def named(self, assigned: Assigned) -> list[dict[str, object]]:
        """An assignment as the consumer protocol has it: by topic name."""
        names = {topic.topic_id: name for name, topic in self.by_name.items()}
        return [
            {"topic": names[topic_id], "partitions": sorted(partitions)}
            for topic_id, partitions in assigned.items()
            if topic_id in names
        ]

    def metadata_hash(self, names: Iterable[str]) -> int:
        """Changes with the topics that are subscribed to; 0 where there are none.

        Kafka's is over racks as well; only whether it has changed means anything.
        """
        known = sorted((name, self.by_name[name]) for name in names if name in self.by_name)
        if not known:
            return 0
        text = repr([(name, topic.topic_id.hex, topic.partitions) for name, topic in known])
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
