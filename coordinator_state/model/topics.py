"""The topic metadata that a coordinator needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's id and number of partitions."""

    topic_id: UUID
    partitions: int


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics by name. Members may also subscribe to topics that do not exist."""

    by_name: Mapping[str, Topic] = field(default_factory=dict)

    def metadata_hash(self, names: Iterable[str]) -> int:
        """A hash of the subscribed topics that exist; 0 if there are none.

        Kafka's hash also covers racks. Coordinators only compare hashes, so values may differ.
        """
        known = sorted((name, self.by_name[name]) for name in names if name in self.by_name)
        if not known:
            return 0
        text = repr([(name, topic.topic_id.hex, topic.partitions) for name, topic in known])
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
