"""The status of every group and its reason: the views `partition_status` and `group_status`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from coordinator_state.apply.columns import nullable, schema_of
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import (
    PartitionFacts,
    Status,
    StatusRules,
    Verdict,
    partition_status,
    rebalancing_loop,
)
from coordinator_state.replay.groups import EMPTY
from streaming.lag.expiring_offsets import expiring_offsets
from streaming.lag.freshness import Freshness
from streaming.lag.group_lag import GROUP_LAG, group_lag
from streaming.lag.recent_commits import KEY, commit_windows, recent_commits
from streaming.lag.rows import GroupStatusRow, PartitionStatusRow
from streaming.tables.reader import TableReader, of_groups
from streaming.tables.schemas import GROUP_EVENTS

PARTITION_STATUS = nullable(schema_of(PartitionStatusRow))
GROUP_STATUS = nullable(schema_of(GroupStatusRow))
"""`topic` and `partition` have the status; they are null for a status of the group itself."""

COMMITS_WITHIN = timedelta(minutes=10)
_OK_STATUSES = frozenset({Status.OK, Status.IDLE})
_FACTS = tuple(field.name for field in fields(PartitionFacts))

_WINDOW = ("commits", "first_commit", "least_offset", "greatest_offset")
_BESIDE = ("group_state", "pending_since", "known_until")
_NEEDED = [
    *(name for name in GROUP_LAG.names if name in {*KEY, *_FACTS, *_BESIDE}),
    *_WINDOW,
]

Row = dict[str, Any]


def partition_statuses(
    reader: TableReader,
    *,
    at: datetime | None = None,
    group_ids: Collection[str] | None = None,
) -> pa.Table:
    """The status of each group in each partition with a committed offset."""
    rows = judged_partitions(reader, at or reader.moment, group_ids, StatusRules())
    return pa.Table.from_pylist(rows, PARTITION_STATUS)


def group_statuses(
    reader: TableReader,
    *,
    at: datetime | None = None,
    group_ids: Collection[str] | None = None,
    rules: StatusRules | None = None,
    lags: pa.Table | None = None,
) -> pa.Table:
    """The status of each group: that of its worst partition, or of the group itself.

    Args:
        reader: the snapshot.
        at: the time of the status; by default that of the snapshot.
        group_ids: only these groups.
        rules: the limits; by default those of `StatusRules`.
        lags: the result of `group_lag` for the same arguments, if the caller has it.
    """
    now, rules = at or reader.moment, rules or StatusRules()
    partitions = judged_partitions(reader, now, group_ids, rules, lags)
    rows = judged_groups(reader, now, group_ids, rules, partitions)
    return pa.Table.from_pylist(rows, GROUP_STATUS)


def judged_groups(
    reader: TableReader,
    now: datetime,
    group_ids: Collection[str] | None,
    rules: StatusRules,
    of_partitions: Iterable[Row],
) -> list[Row]:
    """Rows of `group_status`, from the rows of `judged_partitions`."""
    partitions: dict[str, list[Row]] = defaultdict(list)
    for row in of_partitions:
        partitions[row["group_id"]].append(row)
    stale = Freshness.of(reader, now).verdict(rules)
    loops = {} if stale else _loops(reader, now, rules)
    rows = [
        _of_group(group, partitions[group["group_id"]], loops.get(group["group_id"]))
        for group in _groups(reader, group_ids)
    ]
    if stale is not None:
        of_every_group = {"status": stale.status.value, "reason": stale.reason}
        rows = [row | of_every_group | {"topic": None, "partition": None} for row in rows]
    rows.sort(key=lambda row: row["group_id"])
    return rows


def _of_group(group: Row, partitions: list[Row], loop: Verdict | None) -> Row:
    worst = max(partitions, key=lambda row: Status(row["status"]).rank, default=None)
    verdict = _without_offsets(group) if worst is None else Verdict(Status(worst["status"]), "")
    lags = [row["lag"] for row in partitions if row["lag"] is not None]
    found: Row = {
        "group_id": group["group_id"],
        "group_type": group["group_type"],
        "group_state": group["state"],
        "status": verdict.status.value,
        "reason": verdict.reason,
        "partitions": len(partitions),
        "partitions_not_ok": sum(Status(row["status"]) not in _OK_STATUSES for row in partitions),
        "lag": sum(lags) if lags or not partitions else None,
        "max_time_lag_ms": max(
            (row["time_lag_ms"] for row in partitions if row["time_lag_ms"] is not None),
            default=None,
        ),
    }
    if worst is not None:
        found |= {name: worst[name] for name in ("topic", "partition", "status", "reason")}
    if loop is not None and loop.status.rank > verdict.status.rank:
        found |= {"status": loop.status.value, "reason": loop.reason}
        found |= {"topic": None, "partition": None}
    return found


def _without_offsets(group: Row) -> Verdict:
    if group["member_count"]:
        return Verdict(Status.OK, "no offset is committed yet")
    return Verdict(Status.IDLE, "the group has no members and no offsets")


def _groups(reader: TableReader, group_ids: Collection[str] | None) -> list[Row]:
    columns = ["group_type", "state", "member_count"]
    rows: list[Row] = reader.own("groups", columns, group_ids).to_pylist()
    return rows


def judged_partitions(
    reader: TableReader,
    now: datetime,
    group_ids: Collection[str] | None,
    rules: StatusRules,
    lags: pa.Table | None = None,
) -> list[Row]:
    """Rows of `group_lag` with `status`, `reason` and `behind_ms`, the time the tables are behind.

    They have only those other columns that the status depends on.
    """
    if lags is None:
        lags = group_lag(reader, at=now, group_ids=group_ids)
    commits = recent_commits(reader, now - COMMITS_WITHIN, now, of_groups(group_ids))
    windows = commit_windows(commits)
    lags = lags.join(windows, KEY, join_type="left outer").sort_by(
        [(name, "ascending") for name in KEY]
    )
    until = now + timedelta(milliseconds=rules.expiring_within_ms)
    expires = {
        tuple(row[name] for name in KEY): row["expires_at"]
        for row in expiring_offsets(reader, group_ids=group_ids, until=until).to_pylist()
    }
    stale = Freshness.of(reader, now).verdict(rules)
    rows: list[Row] = lags.select(_NEEDED).to_pylist()
    for row in rows:
        expires_at = expires.get(tuple(row[name] for name in KEY))
        known = {
            **_window(row, now),
            **_as_of_the_tables(row, now),
            "has_members": row["group_state"] != EMPTY,
            "pending_age_ms": _ms_since(row["pending_since"], now),
            "expires_in_ms": None if expires_at is None else -(_ms_since(expires_at, now) or 0),
        }
        found = stale or partition_status(PartitionFacts(**_facts_of(row) | known), rules)
        row["status"], row["reason"] = found.status.value, found.reason
        row["behind_ms"] = known["behind_ms"]
    return rows


def _facts_of(row: Row) -> Row:
    return {name: row[name] for name in _FACTS if name in row}


def _as_of_the_tables(row: Row, now: datetime) -> Row:
    """Ages at the time up to which the tables have commits; later commits are unknown."""
    behind_ms = _ms_since(row["known_until"], now)
    time_lag_ms = row["time_lag_ms"]
    return {
        "behind_ms": behind_ms,
        "commit_age_ms": max(row["commit_age_ms"] - (behind_ms or 0), 0),
        "time_lag_ms": None if time_lag_ms is None else max(time_lag_ms - (behind_ms or 0), 0),
    }


def _window(row: Row, now: datetime) -> Row:
    """The commits of the last minutes, or only the newest commit if there are none."""
    if row["commits"]:
        first_ms = _ms_since(row["first_commit"], now)
        return {
            "commits": row["commits"],
            "commits_from_ms": first_ms,
            "least_offset": row["least_offset"],
            "greatest_offset": row["greatest_offset"],
        }
    return {
        "commits": 1,
        "commits_from_ms": row["commit_age_ms"],
        "least_offset": row["committed_offset"],
        "greatest_offset": row["committed_offset"],
    }


def _ms_since(moment: datetime | None, now: datetime) -> int | None:
    return None if moment is None else round((now - moment).total_seconds() * 1000)


def _loops(reader: TableReader, now: datetime, rules: StatusRules) -> dict[str, Verdict]:
    """Groups in a loop of rebalances."""
    since = now - timedelta(milliseconds=rules.rebalances_within_ms)
    during = [
        *(("day", ">=", since.date()), ("record_timestamp", ">=", since)),
        *(("record_timestamp", "<=", now), ("event", "=", EventName.REBALANCE.value)),
    ]
    columns = ["group_id", "record_timestamp", "epoch_after"]
    events = reader.read(GROUP_EVENTS.name, columns, during)
    found = events.group_by("group_id").aggregate(
        [("epoch_after", "count"), ("record_timestamp", "max"), ("epoch_after", "max")]
    )
    verdicts = {
        row["group_id"]: rebalancing_loop(
            row["epoch_after_count"],
            _ms_since(row["record_timestamp_max"], now) or 0,
            row["epoch_after_max"],
            rules,
        )
        for row in found.to_pylist()
    }
    return {group: verdict for group, verdict in verdicts.items() if verdict is not None}
