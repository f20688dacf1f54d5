"""The pages of a topic (its groups and partitions) and of pending transactions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from flask import abort, g, render_template, request

from coordinator_state.insight.group_status import Status
from streaming.dashboard.page_snapshot import PageSnapshot, Row
from streaming.dashboard.tables_of_rows import RowList, rows_page

_GROUPS_SORTED_BY = (
    *(
        "group_id",
        "rank",
        "partitions",
        "lag",
        "max_lag",
        "skew",
        "max_time_lag_at_least_ms",
        "readers",
    ),
)
_PARTITIONS_SORTED_BY = (
    *("partition", "log_start_offset", "log_end_offset", "produce_rate_per_s", "share"),
    *("max_lag", "groups"),
)


def page() -> str:
    """Show one topic."""
    name = request.args.get("topic", "")
    snapshot: PageSnapshot = g.cluster.snapshot(g.at)
    rows = snapshot.partitions_of_topic(name)
    if not rows:
        abort(404, f"No group has a committed offset of topic {name!r} at this moment.")
    return render_template(
        "topic.html",
        snapshot=snapshot,
        topic=name,
        state=rows[0]["topic_state"],
        groups=rows_page(
            RowList(_groups(rows)),
            request.args,
            sort="-rank",
            columns=_GROUPS_SORTED_BY,
            searched="group_id",
        ),
        partitions=rows_page(
            RowList(_partitions(rows)),
            {},
            sort="partition",
            columns=_PARTITIONS_SORTED_BY,
            page_rows=1000,
        ),
    )


def transactions() -> str:
    """Show pending offsets, and the groups that a transaction blocks."""
    snapshot: PageSnapshot = g.cluster.snapshot(g.at)
    blocked = [
        row
        for row in snapshot.lags.filter(_is_blocked(snapshot)).to_pylist()
        if row["lag"] and row["lag_to_last_stable"] == 0
    ]
    return render_template("transactions.html", snapshot=snapshot, blocked=blocked[:200])


def _is_blocked(snapshot: PageSnapshot) -> Any:
    import pyarrow.compute as pc

    return pc.less(snapshot.lags["last_stable_offset"], snapshot.lags["log_end_offset"])


def _groups(rows: Sequence[Row]) -> list[Row]:
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_group[row["group_id"]].append(row)
    found = []
    for group_id, of_group in by_group.items():
        worst = max(of_group, key=lambda row: Status(row["status"]).rank)
        lags = [row["lag"] for row in of_group if row["lag"] is not None]
        mean = sum(lags) / len(lags) if lags else 0
        found.append(
            {
                **{name: worst[name] for name in ("status", "reason", "rank", "group_state")},
                "group_id": group_id,
                "partitions": len(of_group),
                "lag": sum(lags) if lags else None,
                "max_lag": max(lags, default=None),
                "skew": max(lags) / mean if mean else None,
                **{f"max_{name}": _max(name, of_group) for name in _TIME_LAGS},
                "readers": len({row["member_id"] for row in of_group} - {None}),
            }
        )
    return found


_TIME_LAGS = ("time_lag_ms", "time_lag_at_least_ms")


def _max(name: str, rows: Sequence[Row]) -> int | None:
    return max((row[name] for row in rows if row[name] is not None), default=None)


def _partitions(rows: Sequence[Row]) -> list[Row]:
    by_partition: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_partition[row["partition"]].append(row)
    rates = [found[0]["produce_rate_per_s"] or 0 for found in by_partition.values()]
    total = sum(rates)
    return [
        {
            **{name: found[0][name] for name in _LOG_COLUMNS},
            "partition": partition,
            "share": rate / total if total else None,
            "max_lag": max((row["lag"] for row in found if row["lag"] is not None), default=None),
            "groups": len(found),
        }
        for rate, (partition, found) in zip(rates, by_partition.items(), strict=True)
    ]


_LOG_COLUMNS = ("log_start_offset", "log_end_offset", "last_stable_offset", "produce_rate_per_s")

PAGES = (("topic", "topic", page), ("transactions", "transactions", transactions))
