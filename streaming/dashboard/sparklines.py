"""Small charts of the lag over the last hour: lines of an SVG, made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Final

from coordinator_state.insight.group_facts import LagHistory
from coordinator_state.insight.lag_trend import IN_FLIGHT_S
from streaming.dashboard.overview import groups_page
from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.lag.lag_history import lag_histories, reader_of_groups
from streaming.served.snapshot import ServedSnapshot

SPAN: Final = timedelta(hours=1)
WIDTH: Final = 120
HEIGHT: Final = 24
_POINTS: Final = 61
_FEWEST_POINTS: Final = 6


def page() -> str:
    """The sparklines of the groups on one page of the overview, which loads them after itself."""
    snapshot = request.cluster.snapshot(request.at)
    group_ids = [row["group_id"] for row in groups_page(snapshot).rows]
    histories = last_hour(snapshot, group_ids)
    begin = first_known([history.lag for history in histories.values()])
    return render_template(
        "sparklines.html",
        snapshot=snapshot,
        width=WIDTH,
        height=HEIGHT,
        lines={
            # A lag that is no more than noise stays near the bottom.
            group_id: lines(history.lag[begin:], max(greatest([history]), 2 * _in_flight(history)))
            for group_id, history in histories.items()
        },
    )


def last_hour(snapshot: ServedSnapshot, group_ids: Sequence[str]) -> Mapping[str, LagHistory]:
    """The lag of groups over the last hour, each computed once for a snapshot."""
    known = snapshot.last_hours
    missing = [group_id for group_id in group_ids if group_id not in known]
    if missing:
        until = snapshot.reader.moment
        since = until - SPAN
        source = reader_of_groups(
            snapshot.reader, missing, since, until, is_past=request.at is not None
        )
        known |= lag_histories(source, missing, since=since, until=until, points=_POINTS)
    return {group_id: known[group_id] for group_id in group_ids if group_id in known}


def greatest(histories: Sequence[LagHistory]) -> float:
    """The greatest lag of several histories, at least 1."""
    return (
        max((lag for history in histories for lag in history.lag if lag is not None), default=0)
        or 1
    )


def lines(
    values: Sequence[float | None], most: float, width: int = WIDTH, height: int = HEIGHT
) -> list[str]:
    """The points of the polylines through the known values, from 0 at the bottom to `most`.

    >>> lines([0, 5, None, 10], 10, width=30, height=20)
    ['0,19 10,10', '30,1']
    """
    step = width / max(len(values) - 1, 1)
    points = [
        None if value is None else f"{number * step:.0f},{_y(value / most, height):.0f}"
        for number, value in enumerate(values)
    ]
    runs = groupby(points, key=lambda point: point is None)
    return [" ".join(filter(None, run)) for is_gap, run in runs if not is_gap]


def first_known(lags: Sequence[Sequence[float | None]]) -> int:
    """The first point at which any lag is known: young tables fill the width, too."""
    known = [
        next((number for number, lag in enumerate(of_group) if lag is not None), _POINTS)
        for of_group in lags
    ]
    return min([*known, _POINTS - _FEWEST_POINTS])


def _in_flight(history: LagHistory) -> float:
    """The records that may wait for the next commit of a group: noise for the trend."""
    rates = [rate for rate in history.produce_rate_per_s if rate is not None]
    return IN_FLIGHT_S * max(rates, default=0)


def _y(share: float, height: int) -> float:
    """The place of a share of the greatest value; a line on the edge would be half cut off."""
    return height - 1 - share * (height - 2)


PAGES = (Page("overview/sparklines", "sparklines", page, is_costly=True),)
