"""The filters of the overview: as its address has them, and as the page shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from starlette.datastructures import QueryParams

from coordinator_state.insight.lag_trend import Trend
from streaming.dashboard.tables_of_rows import chosen_values
from streaming.served.list_query import ListQuery
from streaming.served.lists import groups
from streaming.served.snapshot import ServedSnapshot

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
    """The active filters, and the choices that the page offers: those of all groups."""

    chips: Sequence[Chip]
    states: Sequence[str]
    types: Sequence[str]
    topics: Sequence[str]


def group_filters(snapshot: ServedSnapshot, arguments: QueryParams) -> GroupFilters:
    """The filters of an address."""
    statuses = snapshot.evaluation.statuses
    return GroupFilters(
        chips=list(_chips(arguments)),
        states=_choices(statuses["group_state"]),
        types=_choices(statuses["group_type"]),
        topics=snapshot.evaluation.topics[:_MOST_TOPICS].to_pylist(),
    )


def selected_groups(arguments: QueryParams) -> ListQuery:
    """The groups that the arguments of an address select."""
    return groups(
        search=arguments.get("search", ""),
        statuses=chosen_values(arguments, "status"),
        states=chosen_values(arguments, "state"),
        types=chosen_values(arguments, "type"),
        topic_part=arguments.get("topic", ""),
        is_growing=arguments.get("trend") == Trend.GROWING.value,
        sort=arguments.get("sort", ""),
    )


def _chips(arguments: QueryParams) -> Iterator[Chip]:
    for name, label in _ONE.items():
        if arguments.get(name):
            yield Chip(label, arguments[name], name, None)
    for name, label in _SEVERAL.items():
        values = chosen_values(arguments, name)
        for value in values:
            yield Chip(label, value, name, [other for other in values if other != value] or None)


def _choices(column: pa.ChunkedArray) -> list[str]:
    return sorted(pc.unique(column).drop_null().to_pylist())
