"""Some groups side by side, their lags on one scale."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from coordinator_state.apply.columns import rows_of
from coordinator_state.insight.event_digest import FoldedEvents
from coordinator_state.insight.group_facts import LagHistory
from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.dashboard.sparklines import first_known, greatest, last_hour, lines
from streaming.served.snapshot import Row, ServedSnapshot
from streaming.views.event_summary import event_summary
from streaming.views.lists import group_totals

_MOST: Final = 8
_WIDTH, _HEIGHT = 360, 120
_CHANGED_WITHIN: Final = timedelta(hours=24)
_MOST_EVENTS: Final = 50


@dataclass(frozen=True, slots=True)
class Compared:
    """A group: its row of the overview, the newest event, the lag by topic and over the last hour.

    `lines` are those of the chart, `highest` is its greatest lag.
    """

    row: Row
    change: FoldedEvents | None
    topics: Sequence[Row]
    lines: Sequence[str]
    highest: int | None


def page() -> str:
    """Compare the groups that the address names."""
    snapshot = request.cluster.snapshot(request.at)
    asked = list(dict.fromkeys(request.query_params.getlist("group")))
    rows = snapshot.groups(asked[:_MOST])
    group_ids = list(rows)
    histories = last_hour(snapshot, group_ids)
    topics = _topics(snapshot, group_ids)
    most = greatest(list(histories.values()))
    begin = first_known([history.lag for history in histories.values()])
    return render_template(
        "compare.html",
        snapshot=snapshot,
        groups=[
            Compared(
                row,
                _change(snapshot, group_id),
                topics.get(group_id, []),
                lines(histories[group_id].lag[begin:], most, _WIDTH, _HEIGHT),
                _highest(histories[group_id]),
            )
            for group_id, row in rows.items()
        ],
        unknown=[group_id for group_id in asked[:_MOST] if group_id not in rows],
        more=len(asked[_MOST:]),
        most=most,
        width=_WIDTH,
        height=_HEIGHT,
    )


def _topics(snapshot: ServedSnapshot, group_ids: Sequence[str]) -> Mapping[str, list[Row]]:
    """The lag of groups by topic, the greatest first."""
    totals: dict[str, list[Row]] = defaultdict(list)
    for row in rows_of(snapshot.listed(group_totals(group_ids, "topic"))) if group_ids else ():
        totals[row["group_id"]].append(row)
    return totals


def _change(snapshot: ServedSnapshot, group_id: str) -> FoldedEvents | None:
    """The newest event of a group within the last day."""
    arguments: dict[str, Any] = {"group": group_id, "until": snapshot.at, "is_folded": False}
    since = snapshot.at - _CHANGED_WITHIN
    summary = event_summary(snapshot.reader, since=since, most=_MOST_EVENTS, **arguments)
    return summary.rows[0] if summary.rows else None


def _highest(history: LagHistory) -> int | None:
    return max((round(lag) for lag in history.lag if lag is not None), default=None)


PAGES = (Page("compare", "compare", page, is_costly=True),)
