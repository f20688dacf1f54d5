"""Changes of groups and of their committed offsets between two snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow.compute as pc

from coordinator_state.insight.group_status import Status
from streaming.views.snapshot import Snapshot

MOST: Final = 500


class Heaviest(NamedTuple):
    """The rows of a table that matter most, and the number of the others."""

    rows: Sequence[Mapping[str, Any]]
    more: int


def group_changes(
    since: Snapshot, until: Snapshot, group_id: str | None, most: int = MOST
) -> Heaviest:
    """Groups whose status, state, or number of members or partitions changed, worst first.

    A row has the group `before` and `after`; None where the group did not exist.
    """
    before, after = _states(since), _states(until)
    names = before.keys() | after.keys() if group_id is None else [group_id]
    worst = {
        name: max(Status(side[0]).rank for side in (before.get(name), after.get(name)) if side)
        for name in names
        if before.get(name) != after.get(name)
    }
    group_ids = sorted(worst, key=lambda name: (-worst[name], name))
    shown = group_ids[:most]
    sides = [snapshot.groups(shown) for snapshot in (since, until)]
    rows = [
        {"group_id": name, "before": sides[0].get(name), "after": sides[1].get(name)}
        for name in shown
    ]
    return Heaviest(rows, len(group_ids) - len(shown))


def _states(snapshot: Snapshot) -> Mapping[str, tuple[Any, ...]]:
    """The part of each group whose change is shown, by group."""
    names, *states = (
        snapshot.evaluation.statuses[name].to_pylist()
        for name in ("group_id", "status", "group_state", "member_count", "partitions")
    )
    return dict(zip(names, zip(*states, strict=True), strict=True))


def offset_changes(
    since: Snapshot, until: Snapshot, group_id: str | None, most: int = MOST
) -> Heaviest:
    """Changes of the committed offsets per group and topic; groups that went back come first.

    A row has the sums of offsets that went `forward` and `back`, and the numbers of partitions
    whose offset was `added` or `removed`.
    """
    before, after = _offsets(since, group_id), _offsets(until, group_id)
    totals: dict[tuple[str, str], dict[str, Any]] = {}
    for key in before.keys() | after.keys():
        was, became = before.get(key), after.get(key)
        if was != became:
            of = totals.setdefault(key[:2], {"forward": 0, "back": 0, "added": 0, "removed": 0})
            if was is None:
                of["added"] += 1
            elif became is None:
                of["removed"] += 1
            else:
                of["forward" if became > was else "back"] += abs(became - was)
    rows = [{"group_id": group, "topic": topic, **of} for (group, topic), of in totals.items()]
    rows.sort(key=lambda row: (-row["back"], -row["removed"], row["group_id"], row["topic"]))
    return Heaviest(rows[:most], max(len(rows) - most, 0))


def _offsets(snapshot: Snapshot, group_id: str | None) -> dict[tuple[str, str, int], int]:
    lags = snapshot.lags
    if group_id is not None:
        lags = lags.filter(pc.field("group_id") == group_id)
    lags = lags.filter(pc.is_valid(lags["committed_offset"]))
    columns = [
        lags[name].to_pylist() for name in ("group_id", "topic", "partition", "committed_offset")
    ]
    return {(group, topic, at): offset for group, topic, at, offset in zip(*columns, strict=True)}
