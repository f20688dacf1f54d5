"""The story of a group from its tables."""

from __future__ import annotations

from datetime import datetime

from coordinator_state.insight.story import Story, story_of
from streaming.lag.group_facts import WINDOW, group_facts
from streaming.tables.reader import TableReader
from streaming.views.explanation import explanation_of


def group_story(reader: TableReader, group_id: str, *, at: datetime | None = None) -> Story | None:
    """The story of a group of a snapshot, by default as of its moment; None for an unknown group.

    It reads the history of this group once, and rebuilds earlier states of this group only. That
    takes half the time.

    Raises:
        ConfigurationError: the tables cannot be read.
    """
    moment = at or reader.moment
    of_group = reader.with_history(since=moment - WINDOW, group_ids=[group_id])
    facts = group_facts(of_group, group_id, at=moment)
    return None if facts is None else story_of(facts, explanation_of(facts))
