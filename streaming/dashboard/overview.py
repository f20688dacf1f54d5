"""The overview: unhealthy groups with start time and reason."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from starlette.responses import HTMLResponse, Response

from coordinator_state.insight.group_status import StatusRules
from coordinator_state.insight.lag_trend import Trend
from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.dashboard.shown import level
from streaming.dashboard.tables_of_rows import RowsPage, chosen_values, list_page
from streaming.lag.freshness import Freshness
from streaming.served.snapshot import ServedSnapshot
from streaming.tables.schemas import STATE_CURRENT
from streaming.views.list_query import ListQuery
from streaming.views.lists import GROUPS, alerts, groups

COLUMNS: Final = {column.name: column.label for column in GROUPS[2:]}
"""The columns beside group and status, by their names in the address."""
_COOKIE: Final = "columns"
_KEPT_FOR_S: Final = 365 * 86_400


def chosen_columns() -> Collection[str]:
    """The columns of the address, else those of the last visit, else all; in the order of COLUMNS.

    An address has one argument `columns` per column. An empty one stands for the form itself, so
    that no column can be chosen.
    """
    names = request.query_params.getlist("columns")
    if not names and _COOKIE in request.cookies:
        names = request.cookies[_COOKIE].split(".")
    return [name for name in COLUMNS if name in names] if names else list(COLUMNS)


def keeping_columns(page: str) -> Response:
    """The page; if its address chooses columns, they are kept for the next visit."""
    response = HTMLResponse(page)
    if "columns" in request.query_params:
        names = ".".join(chosen_columns())
        response.set_cookie(_COOKIE, names, max_age=_KEPT_FOR_S, samesite="lax", httponly=True)
    return response


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


def group_filters(snapshot: ServedSnapshot) -> GroupFilters:
    """The filters of an address."""
    statuses = snapshot.evaluation.statuses
    return GroupFilters(
        chips=list(_chips()),
        states=_choices(statuses["group_state"]),
        types=_choices(statuses["group_type"]),
        topics=snapshot.evaluation.topics[:_MOST_TOPICS].to_pylist(),
    )


def selected_groups() -> ListQuery:
    """The groups that the address selects."""
    arguments = request.query_params
    return groups(
        search=arguments.get("search", ""),
        statuses=chosen_values("status"),
        states=chosen_values("state"),
        types=chosen_values("type"),
        topic_part=arguments.get("topic", ""),
        is_growing=arguments.get("trend") == Trend.GROWING.value,
        sort=arguments.get("sort", ""),
    )


def _chips() -> Iterator[Chip]:
    for name, label in _ONE.items():
        if value := request.query_params.get(name):
            yield Chip(label, value, name, None)
    for name, label in _SEVERAL.items():
        values = chosen_values(name)
        for value in values:
            yield Chip(label, value, name, [other for other in values if other != value] or None)


def _choices(column: pa.ChunkedArray) -> list[str]:
    return sorted(pc.unique(column).drop_null().to_pylist())


def page() -> Response:
    """Show all groups, worst first."""
    snapshot = request.cluster.snapshot(request.at)
    shown = render_template(
        "overview.html",
        groups=groups_page(snapshot),
        filters=group_filters(snapshot),
        columns=chosen_columns(),
        all_columns=COLUMNS,
        tiles=tiles_of(snapshot),
        transactions=len(snapshot.transactions),
        loading=sum(row["state"] != STATE_CURRENT for row in snapshot.progress),
        snapshot=snapshot,
    )
    return keeping_columns(shown)


def groups_page(snapshot: ServedSnapshot) -> RowsPage:
    """The groups that the address selects: those of its page, worst first."""
    return list_page(snapshot, selected_groups())


class Tile(NamedTuple):
    """A measure of the overview; `level` is the severity of its value, and its colour."""

    value: float | None
    level: str


def tiles_of(snapshot: ServedSnapshot) -> dict[str, Tile]:
    """The measures of a cluster, each with its severity."""
    rules = snapshot.status_rules
    hanging = sum(row["is_hanging"] for row in snapshot.transactions)
    groups = snapshot.evaluation.statuses
    lag = pc.sum(groups["lag"]).as_py()
    time_lag_ms = pc.max(groups["max_time_lag_at_least_ms"]).as_py()
    # Alerts are always read as of now, so a page of the past has no count.
    states = [] if request.at else snapshot.listed(alerts(), "state")["state"].to_pylist()
    firing = states.count("firing") if states else None
    return {
        "lag": Tile(lag, _level_of_lag(snapshot)),
        "time_lag_ms": Tile(time_lag_ms, _level(time_lag_ms, warning_above=rules.slow_after_ms)),
        "hanging": Tile(
            hanging,
            _level(hanging, bad_above=0),
        ),
        "firing": Tile(firing, _level(firing, bad_above=0)),
        "quarantined": Tile(snapshot.quarantined, _level(snapshot.quarantined, warning_above=0)),
        "behind_ms": _tables_behind(snapshot, rules),
    }


def _tables_behind(snapshot: ServedSnapshot, rules: StatusRules) -> Tile:
    """The tile "tables behind". For stale tables it has the time since the last write."""
    fresh = Freshness.of(snapshot.reader, snapshot.at)
    if fresh.verdict(rules) is not None:
        return Tile(fresh.age_ms, "bad")
    known = snapshot.known_until
    behind_ms = None if known is None else (snapshot.at - known).total_seconds() * 1000
    is_loading = any(row["state"] != STATE_CURRENT for row in snapshot.progress)
    limit_ms = 0 if is_loading else rules.stale_after_ms
    return Tile(behind_ms, _level(behind_ms, warning_above=limit_ms))


def _level(
    value: float | None, *, warning_above: float = math.inf, bad_above: float = math.inf
) -> str:
    if value is None:
        return "unknown"
    return "bad" if value > bad_above else "warning" if value > warning_above else "good"


def _level_of_lag(snapshot: ServedSnapshot) -> str:
    """The worst severity of a group that is behind: a number of records has no limit."""
    groups = snapshot.evaluation.statuses
    lags = groups["lag"]
    statuses = pc.unique(groups["status"].filter(pc.not_equal(lags, 0))).to_pylist()
    levels = {level(status) for status in statuses}
    known = "unknown" if lags.null_count == len(lags) else "good"
    return next((worst for worst in ("bad", "warning", "unknown") if worst in levels), known)


PAGES = (Page("", "overview", page),)
