"""The groups that read a topic, each with its lag over all partitions of the topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from coordinator_state.insight.group_status import Status
from streaming.served.snapshot import Row


def topic_groups(rows: Sequence[Row]) -> list[Row]:
    """The groups in rows of `group_lag` of one topic, with status.

    `skew` is the largest lag of a partition divided by the mean lag, and `readers` the number of
    members that have a partition of the topic.
    """
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
