"""The events of a page: folded and by weight, or one by one; the address selects the names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from coordinator_state.insight.event_digest import BY_WEIGHT
from coordinator_state.insight.event_text import Labels
from streaming.dashboard.request import request
from streaming.dashboard.tables_of_rows import RowsPage, rows_page
from streaming.served.snapshot import ServedSnapshot
from streaming.views.event_summary import event_summary, newest_first

_PAGE_ROWS = 100
EVENT_NAMES = [name.value for name in BY_WEIGHT]


@dataclass(frozen=True, slots=True)
class EventsPage:
    """A page of events; each row is a `FoldedEvents`.

    `names` are the selected names of events, empty for all. `more` is the number of older events
    that are in no row of any page. `labels` are those of the members in the events and of the
    current members of their groups.
    """

    page: RowsPage
    names: list[str]
    is_folded: bool
    more: int
    labels: Labels


def events_page(
    snapshot: ServedSnapshot,
    *,
    group: str | None,
    since: datetime | None = None,
    until: datetime | None = None,
    is_ranked: bool = True,
) -> EventsPage:
    """The events that the arguments `event`, `folded` and `page` of the address select.

    Args:
        snapshot: the tables.
        group: the group; all groups if None.
        since: the beginning of the period.
        until: the end of the period.
        is_ranked: whether folded events are in the order of weight; otherwise the heaviest that fit
            on one page are shown, newest first.

    Raises:
        ConfigurationError: a name in the address is not an event.
    """
    names = [name for name in request.query_params.get("event", "").split(",") if name]
    is_folded = request.query_params.get("folded") != "no"
    summary = event_summary(
        snapshot.reader, group=group, events=names, since=since, until=until, is_folded=is_folded
    )
    rows, more = summary.rows, summary.more
    if not is_ranked:
        more += sum(folded.count for folded in rows[_PAGE_ROWS:])
        rows = sorted(rows[:_PAGE_ROWS], key=newest_first)
    page = rows_page(
        rows, arguments=None if is_ranked else {}, page_rows=_PAGE_ROWS, sql=summary.sql
    )
    return EventsPage(page, names, is_folded, more, summary.labels)
