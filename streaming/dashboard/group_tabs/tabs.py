"""The tabs of a group's page. The address chooses one, and only its table is computed and sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from markupsafe import Markup

from streaming.dashboard.events import EVENT_NAMES, events_page
from streaming.dashboard.group_tabs.deliveries import deliveries
from streaming.dashboard.group_tabs.members import members
from streaming.dashboard.group_tabs.partitions import partitions
from streaming.dashboard.group_tabs.shown_group import ShownGroup
from streaming.dashboard.group_tabs.tasks import tasks
from streaming.dashboard.group_tabs.transactions import open_of, transactions
from streaming.dashboard.group_tabs.workers import workers
from streaming.dashboard.period import SPANS
from streaming.dashboard.rendered import render_template
from streaming.dashboard.request import here, request

PLACE: Final = "tables"
"""The id of the tabs: links of their tables lead there, so that the reader stays where they are."""
KEPT: Final = frozenset({"group", "at", "span", "since", "until"})
"""The arguments that a change of the tab keeps."""


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab; `count` is the number of its rows if that costs nothing to know."""

    name: str
    label: str
    values: Callable[[ShownGroup], Mapping[str, Any]]
    is_for: Callable[[ShownGroup], bool]
    count: Callable[[ShownGroup], int | None] = lambda _: None

    @property
    def template(self) -> str:
        """The template of its table."""
        return f"group/{self.name}.html"


def tabs_of(group: ShownGroup) -> list[Tab]:
    """The tabs for a group of this type."""
    return [tab for tab in _TABS if tab.is_for(group)]


def chosen_of(tabs: Sequence[Tab]) -> Tab:
    """The tab of the address, or else the first."""
    return next((tab for tab in tabs if tab.name == request.query_params.get("tab")), tabs[0])


def shown(tab: Tab, group: ShownGroup) -> str:
    """The HTML of a tab."""
    html = render_template(
        tab.template,
        group=group,
        snapshot=group.snapshot,
        group_id=group.group_id,
        here=partial(here, fragment=PLACE),
        place=PLACE,
        kept=["group", "tab", "span", "since", "until"],
        spans=SPANS,
        **tab.values(group),
    )
    return Markup(html)  # noqa: S704 - of a template, which escapes values


def tab_address(tab: Tab) -> str:
    """The address of a tab, without the order and the filters of another one."""
    return here(kept=KEPT, tab=tab.name, fragment=PLACE)


def _events(group: ShownGroup) -> dict[str, Any]:
    period = group.period
    events = events_page(
        group.snapshot,
        group=group.group_id,
        since=None if period is None else period.since,
        until=request.at if period is None else period.until,
        is_ranked=False,
    )
    return {"events": events, "event_names": EVENT_NAMES}


def _always(_group: ShownGroup) -> bool:
    return True


def _members(group: ShownGroup) -> int | None:
    return None if group.status is None else group.status["member_count"]


def _partitions(group: ShownGroup) -> int | None:
    return None if group.status is None else group.status["partitions"]


def _has_members(group: ShownGroup) -> bool:
    return group.exists and not group.is_external


_TABS: Final = (
    Tab("workers", "Workers", workers, lambda group: group.is_connect, _members),
    Tab(
        "partitions",
        "Partitions",
        partitions,
        lambda group: group.exists and (not group.is_connect or bool(_partitions(group))),
        _partitions,
    ),
    Tab(
        "members",
        "Members",
        members,
        lambda group: _has_members(group) and not group.is_connect,
        _members,
    ),
    Tab("tasks", "Tasks", tasks, lambda group: group.is_streams),
    Tab("deliveries", "Deliveries", deliveries, lambda group: group.is_share),
    Tab("events", "Events", _events, _always),
    Tab(
        "transactions",
        "Transactions",
        transactions,
        lambda group: _has_members(group) and not group.is_share,
        lambda group: len(open_of(group)) or None,
    ),
    Tab("records", "Raw records", lambda _: {}, lambda group: not group.is_external),
)
