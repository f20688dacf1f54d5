"""The filters of the overview: as its address has them, and as the page shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from werkzeug.datastructures import MultiDict

from coordinator_state.insight.lag import Int64s
from coordinator_state.insight.lag_trend import Trend
from streaming.served.group_filter import GroupFilter, having_part, wanted_groups
from streaming.served.snapshot import ServedSnapshot
from streaming.served.statuses import counted

_MOST_TOPICS = 100
"""How many topics the page suggests."""
_SEVERAL = {"status": "Status", "state": "State", "type": "Type"}
"""The arguments with several values, any of which holds."""
_ONE = {"search": "Group", "topic": "Topic", "trend": "Lag"}


@dataclass(frozen=True, slots=True)
class Chip:
    """An active filter: its text, and the argument of the address without it; None if none is left.

    The text of a value may have been chosen by a client.
    """

    label: str
    value: str
    argument: str
    others: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class GroupFilters:
    """The groups that an address selects, and the choices that the page offers.

    `numbers` are those of the selected groups. `statuses` counts the groups that match all filters
    except that of the status; `states`, `types` and `topics` are those of all groups.
    """

    numbers: Int64s
    chips: Sequence[Chip]
    statuses: Mapping[str, int]
    states: Sequence[str]
    types: Sequence[str]
    topics: Sequence[str]


def group_filters(snapshot: ServedSnapshot, arguments: MultiDict[str, str]) -> GroupFilters:
    """The groups that the arguments of an address select."""
    groups = snapshot.group_list
    wanted = _filter_of(snapshot, arguments)
    statuses = groups.column("status")
    found = wanted_groups(snapshot, replace(wanted, statuses=()))
    counts = counted(statuses.filter(pa.array(found)))
    if wanted.statuses:
        found &= wanted_groups(snapshot, GroupFilter(statuses=wanted.statuses))
    return GroupFilters(
        numbers=found.nonzero()[0],
        chips=list(_chips(arguments)),
        statuses=counts,
        states=_choices(groups.column("group_state")),
        types=_choices(groups.column("group_type")),
        topics=snapshot.topics[:_MOST_TOPICS].to_pylist(),
    )


def _filter_of(snapshot: ServedSnapshot, arguments: MultiDict[str, str]) -> GroupFilter:
    part = arguments.get("topic", "")
    topics = snapshot.topics.filter(pa.array(having_part(snapshot.topics, part))) if part else None
    return GroupFilter(
        search=arguments.get("search", ""),
        statuses=_values(arguments, "status"),
        states=_values(arguments, "state"),
        types=_values(arguments, "type"),
        topics=topics,
        is_growing=arguments.get("trend") == Trend.GROWING.value,
    )


def _values(arguments: MultiDict[str, str], name: str) -> list[str]:
    """The values of an argument without empty ones: forms send them for fields without a choice."""
    return [value for value in dict.fromkeys(arguments.getlist(name)) if value]


def _chips(arguments: MultiDict[str, str]) -> Iterator[Chip]:
    for name, label in _ONE.items():
        if arguments.get(name):
            yield Chip(label, arguments[name], name, None)
    for name, label in _SEVERAL.items():
        values = _values(arguments, name)
        for value in values:
            yield Chip(label, value, name, [one for one in values if one != value] or None)


def _choices(column: pa.ChunkedArray) -> list[str]:
    return sorted(pc.unique(column).drop_null().to_pylist())
