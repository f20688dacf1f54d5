"""Names of topics that group records name by topic id."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from coordinator_state.replay.group_replay import AskTopicNames


@dataclass(slots=True)
class KnownTopics:
    """Topic names by topic id; a topic keeps its name after it was deleted.

    `unnamed` are the topic ids without a known name; each micro-batch asks for them again.
    """

    ask: AskTopicNames
    names: dict[str, str] = field(default_factory=dict)
    unnamed: set[str] = field(default_factory=set)

    def naming(self, topic_ids: Set[str]) -> Mapping[str, str]:
        """Ask for the names of these topic ids, and return all known names."""
        wanted = (topic_ids | self.unnamed) - self.names.keys()
        self.names.update(self.ask(wanted) if wanted else {})
        self.unnamed = wanted - self.names.keys()
        return self.names
