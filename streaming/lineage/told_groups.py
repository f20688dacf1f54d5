"""What the catalogue knows of each group, and when a group is due."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from streaming.lineage.relations import GroupTopics, Relations

REPEAT_S: Final = 24 * 60 * 60.0
"""A new catalogue knows every group after a day."""
REFUSED_S: Final = 10 * 60.0
"""When an event that the catalogue refused is sent again."""


@dataclass(slots=True)
class ToldGroups:
    """The groups that were sent. No event is queued: the next one is made from the tables.

    So memory is bounded by the number of groups, however long the catalogue is away.
    """

    _told: dict[str, tuple[GroupTopics, float]] = field(default_factory=dict)
    _refused: dict[str, float] = field(default_factory=dict)

    def due(self, relations: Relations, now: float) -> list[GroupTopics]:
        """The groups to send: new, changed, gone, or sent too long ago; `now` is in seconds."""
        due = []
        for group in relations.groups.values():
            sent, until = self._told.get(group.group_id, (None, now))
            if sent != group or until <= now:
                due.append(group)
        due += [
            GroupTopics(sent.group_id, sent.group_type)
            for sent, _ in self._told.values()
            if relations.is_gone(sent.group_id)
        ]
        self._refused = {
            group.group_id: self._refused[group.group_id]
            for group in due
            if self._refused.get(group.group_id, now) > now
        }
        return [group for group in due if group.group_id not in self._refused]

    @property
    def is_refused(self) -> bool:
        """Whether the catalogue refused the event of a group, which is sent again later."""
        return bool(self._refused)

    def sent(self, group: GroupTopics, now: float) -> None:
        """Record that the catalogue took the event of a group."""
        if group.topics:
            self._told[group.group_id] = group, now + REPEAT_S
        else:
            self._told.pop(group.group_id, None)

    def refused(self, group: GroupTopics, now: float) -> None:
        """Put a group off, so that it does not hold back the others."""
        self._refused[group.group_id] = now + REFUSED_S
