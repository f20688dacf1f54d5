"""The first page of several clusters: totals, their worst groups, and a search in all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coordinator_state.insight.group_status import UNHEALTHY, Status
from streaming.dashboard.overview import Tile, tiles_of
from streaming.dashboard.rendered import render_template
from streaming.dashboard.request import request
from streaming.errors import ConfigurationError
from streaming.served.cluster import Cluster
from streaming.served.snapshot import Row, ServedSnapshot, counted, worst_first
from streaming.views import lists

_MOST_WORST: Final = 10
_MOST_FOUND: Final = 20


@dataclass(frozen=True, slots=True)
class Known:
    """A cluster whose tables can be read: its measures, and its worst groups."""

    name: str
    snapshot: ServedSnapshot
    statuses: Mapping[str, int]
    tiles: Mapping[str, Tile]
    worst: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Found:
    """The matches of a search in a cluster; `more_groups` and `more_topics` are not shown."""

    cluster: str
    groups: Sequence[Row]
    more_groups: int
    topics: Sequence[str]
    more_topics: int


def page() -> str:
    """Show all clusters, or the matches of a search in them."""
    known, faults = [], {}
    for cluster in request.clusters.values():
        try:
            known.append(_known(cluster))
        except ConfigurationError as error:
            faults[cluster.name] = str(error)
    worst = [(known_cluster.name, row) for known_cluster in known for row in known_cluster.worst]
    worst.sort(key=lambda pair: (-Status(pair[1]["status"]).rank, -(pair[1]["lag"] or 0)))
    search = request.query_params.get("search", "")
    return render_template(
        "clusters.html",
        clusters=known,
        faults=faults,
        totals=_totals(known),
        worst=worst[:_MOST_WORST],
        matches=[_found(known_cluster, search) for known_cluster in known] if search else None,
    )


def _known(cluster: Cluster) -> Known:
    snapshot = cluster.snapshot()
    statuses = counted(snapshot.evaluation.statuses["status"])
    worst = snapshot.groups(snapshot.ids(lists.groups(statuses=UNHEALTHY), _MOST_WORST))
    return Known(cluster.name, snapshot, statuses, tiles_of(snapshot), list(worst.values()))


def _totals(clusters: Sequence[Known]) -> Mapping[str, Mapping[str, int] | float | None]:
    """Groups by status, and sums of the known measures; None if none is known."""
    statuses: Counter[str] = Counter()
    for cluster in clusters:
        statuses.update(cluster.statuses)
    totals: dict[str, Mapping[str, int] | float | None] = {"statuses": worst_first(statuses)}
    for name in ("lag", "firing"):
        values = [cluster.tiles[name].value for cluster in clusters]
        known = [value for value in values if value is not None]
        totals[name] = sum(known) if known else None
    return totals


def _found(cluster: Known, search: str) -> Found:
    snapshot = cluster.snapshot
    ids = snapshot.ids(lists.groups(search=search, sort="group_id"))
    topics = snapshot.listed(lists.read_topics(search))["topic"].to_pylist()
    return Found(
        cluster=cluster.name,
        groups=list(snapshot.groups(ids[:_MOST_FOUND]).values()),
        more_groups=max(len(ids) - _MOST_FOUND, 0),
        topics=topics[:_MOST_FOUND],
        more_topics=max(len(topics) - _MOST_FOUND, 0),
    )
