"""When the event of a group is due."""

from __future__ import annotations

from streaming.lineage.relations import GroupTopics, Relations
from streaming.lineage.told_groups import REFUSED_S, REPEAT_S, ToldGroups

G = GroupTopics("g", "classic", ("t",))
H = GroupTopics("h", "classic", ("t",))
GONE = GroupTopics("g", "classic")


def reading(*groups: GroupTopics, loaded: bool = True) -> Relations:
    relations = Relations("tables", {group.group_id: group for group in groups})
    relations._loaded = frozenset({0} if loaded else ())
    return relations


def test_a_group_is_sent_once_until_it_changes() -> None:
    told = ToldGroups()
    assert told.due(reading(G, H), 0) == [G, H]
    told.sent(G, 0)
    assert told.due(reading(G, H), 0) == [H]
    told.sent(H, 0)
    assert told.due(reading(G, H), REPEAT_S - 1) == []
    more = GroupTopics("g", "classic", ("t", "u"))
    assert told.due(reading(more, H), 1) == [more]


def test_a_group_is_sent_again_after_a_day() -> None:
    told = ToldGroups()
    told.sent(G, 0)
    assert told.due(reading(G), REPEAT_S) == [G]
    told.sent(G, REPEAT_S)
    assert told.due(reading(G), REPEAT_S + 1) == []


def test_a_group_that_is_gone_is_sent_once() -> None:
    told = ToldGroups()
    told.sent(G, 0)
    assert told.due(reading(loaded=False), 1) == []
    assert told.due(reading(), 1) == [GONE]
    told.sent(GONE, 1)
    assert told.due(reading(), 2) == []
    assert told.due(reading(G), 3) == [G]


def test_a_refused_group_does_not_hold_back_others() -> None:
    told = ToldGroups()
    told.refused(G, 0)
    assert told.due(reading(G, H), 1) == [H]
    assert told.is_refused
    assert told.due(reading(G, H), REFUSED_S) == [G, H]
    assert not told.is_refused


def test_refused_groups_that_are_gone_are_forgotten() -> None:
    told = ToldGroups()
    told.refused(G, 0)
    assert told.due(reading(), 1) == []
    assert not told.is_refused
