"""The status of every group and its reason: the views `partition_status` and `group_status`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import nullable, schema_of
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import (
    Status,
    StatusRules,
    Verdict,
    count_text,
    reason_of,
    rebalancing_loop,
    silent_verdict,
)
from coordinator_state.insight.partition_status import (
    PartitionFacts,
    details_text,
    partition_status,
    well_status,
)
from coordinator_state.replay.groups import SHARE, STREAMS
from streaming.lag.freshness import Freshness
from streaming.lag.group_lag import group_lag
from streaming.lag.partition_facts import FACTS, partition_facts
from streaming.lag.recent_commits import KEY
from streaming.lag.rows import GroupStatusRow, PartitionStatusRow
from streaming.lag.silent_members import silent_facts, silent_members
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_EVENTS

PARTITION_STATUS = nullable(schema_of(PartitionStatusRow))
GROUP_STATUS = nullable(schema_of(GroupStatusRow))
"""`topic` and `partition` have the status; they are null for a status of the group itself."""

_OK_STATUSES = frozenset({Status.OK, Status.IDLE})
# The columns of `group_lag` that alert rules and sums need.
_OF_LAG = [
    *KEY,
    *("lag", "lag_to_last_stable", "data_lost", "time_lag_ms", "time_lag_at_least_ms"),
    *("retention_margin_ms", "commit_age_ms", "commit_rate_per_s", "produce_rate_per_s"),
]

Row = dict[str, Any]


def partition_statuses(
    reader: TableReader,
    *,
    at: datetime | None = None,
    group_ids: Collection[str] | None = None,
    rules: StatusRules | None = None,
) -> pa.Table:
    """The status of each group in each partition with a committed offset."""
    rows = judged_partitions(reader, at or reader.moment, group_ids, rules or StatusRules())
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


def judged_partitions(
    reader: TableReader,
    now: datetime,
    group_ids: Collection[str] | None,
    rules: StatusRules,
    lags: pa.Table | None = None,
) -> list[Row]:
    """Rows of `group_lag` with `status`, `reason` and `behind_ms`, the time the tables are behind.

    They have only the columns for alert rules and sums, and `cause`, `lag_text` and `growth_per_s`
    from which the reason of a group is made.
    """
    if lags is None:
        lags = group_lag(reader, at=now, group_ids=group_ids)
    stale = Freshness.of(reader, now).verdict(rules)
    facts = partition_facts(reader, now, group_ids, rules, lags)
    columns = lags.select(_OF_LAG)
    for name in ("behind_ms", "is_well", "has_members"):
        columns = columns.append_column(name, facts[name])
    columns = columns.append_column("oldest_ms", facts["time_lag_ms"])
    rows: list[Row] = columns.to_pylist()
    others = iter(facts.filter(pc.invert(facts["is_well"])).to_pylist())
    for row in rows:
        growth_per_s = None
        if row["is_well"]:
            found = well_status(row["lag"], row["oldest_ms"], has_members=row["has_members"])
        else:
            of_row = next(others)
            known = PartitionFacts(**{name: of_row[name] for name in FACTS})
            found, growth_per_s = partition_status(known, rules), known.growth_per_s
        found = stale or found
        row["status"], row["reason"] = found.status.value, found.reason
        row["cause"], row["lag_text"], row["growth_per_s"] = *found[1:], growth_per_s
    return rows


def judged_groups(
    reader: TableReader,
    now: datetime,
    group_ids: Collection[str] | None,
    rules: StatusRules,
    of_partitions: Sequence[Row],
) -> list[Row]:
    """Rows of `group_status`, from the rows of `judged_partitions`."""
    partitions: dict[str, list[Row]] = defaultdict(list)
    for row in of_partitions:
        partitions[row["group_id"]].append(row)
    stale = Freshness.of(reader, now).verdict(rules)
    loops = {} if stale else _loops(reader, now, rules)
    silent = silent_members(reader, now, group_ids, of_partitions)
    columns = ["group_type", "state", "member_count"]
    rows = []
    for group in reader.own("groups", columns, group_ids).to_pylist():
        group_id = group["group_id"]
        own, of_silent = partitions[group_id], silent.get(group_id, [])
        verdicts = [loops[group_id]] if group_id in loops else []
        if own:
            # Without new records there is nothing to commit.
            of_silent = [row for row in of_silent if row["records"]]
        if of_silent:
            verdicts.append(silent_verdict(silent_facts(of_silent), rules))
        elif not own:
            verdicts.append(_without_offsets(group))
        rows.append(_of_group(group, own, verdicts))
    if stale is not None:
        of_every_group = {"status": stale.status.value, "reason": stale.reason}
        rows = [row | of_every_group | {"topic": None, "partition": None} for row in rows]
    rows.sort(key=lambda row: row["group_id"])
    return rows


def _of_group(group: Row, partitions: list[Row], verdicts: list[Verdict]) -> Row:
    """The row of a group; `verdicts` are those of the group itself."""
    found: Row = {
        **{"group_id": group["group_id"], "group_type": group["group_type"]},
        **{"group_state": group["state"], "topic": None, "partition": None},
        "partitions": len(partitions),
        "partitions_not_ok": sum(Status(row["status"]) not in _OK_STATUSES for row in partitions),
        "lag": _total(sum, "lag", partitions) if partitions or group["member_count"] else 0,
        "max_time_lag_ms": _total(max, "time_lag_ms", partitions),
        "max_time_lag_at_least_ms": _total(max, "time_lag_at_least_ms", partitions),
    }
    # Of equally bad partitions, the one with the most records to read.
    worst = max(
        partitions, key=lambda row: (Status(row["status"]).rank, row["lag"] or 0), default=None
    )
    own = max(verdicts, key=lambda one: one.status.rank, default=Verdict(Status.IDLE, ""))
    if worst is None or own.status.rank > Status(worst["status"]).rank:
        return found | {"status": own.status.value, "reason": own.reason}
    reason = worst["reason"]
    if worst["lag_text"] and len(partitions) > 1:
        reason = reason_of(worst["cause"], _whole_lag_text(worst, partitions, found))
    return found | {
        **{name: worst[name] for name in ("topic", "partition", "status")},
        "reason": reason,
    }


def _whole_lag_text(worst: Row, partitions: list[Row], of_group: Row) -> str:
    """The lag of a group, and the part of its worst partition."""
    place = f"{worst['topic']}:{worst['partition']}"
    part = f"{worst['lag']:,} of them" if worst["lag"] != of_group["lag"] else "all"
    growth = _total(sum, "growth_per_s", partitions)
    at_least_ms = of_group["max_time_lag_at_least_ms"]
    is_known = at_least_ms == of_group["max_time_lag_ms"]
    details = details_text(at_least_ms if is_known else None, at_least_ms, growth)
    return f"{of_group['lag']:,} behind, {part} in {place}{details}"


def _total(function: Any, name: str, rows: Iterable[Row]) -> Any:
    """The sum, or maximum, of the known values; None without any."""
    known = [row[name] for row in rows if row[name] is not None]
    return function(known) if known else None


def _without_offsets(group: Row) -> Verdict:
    """The verdict for a group without offsets and without assigned partitions."""
    if not group["member_count"]:
        return Verdict(Status.IDLE, "the group has no members and no offsets")
    members = count_text(group["member_count"], "member")
    if group["group_type"] == SHARE:
        return Verdict(
            Status.UNKNOWN,
            f"{members}; a share group keeps its progress in __share_group_state, which is not "
            "read",
        )
    if group["group_type"] == STREAMS:
        return Verdict(
            Status.UNKNOWN, f"no offset is committed yet by {members}; the tasks name no topics"
        )
    return Verdict(Status.OK, f"no offset is committed; {members} without a partition")


def _loops(reader: TableReader, now: datetime, rules: StatusRules) -> dict[str, Verdict]:
    """Groups in a loop of rebalances."""
    since = now - timedelta(milliseconds=rules.rebalances_within_ms)
    during = [
        *(("day", ">=", since.date()), ("record_timestamp", ">=", since)),
        *(("record_timestamp", "<=", now), ("event", "=", EventName.REBALANCE.value)),
    ]
    columns = ["group_id", "group_type", "record_timestamp", "epoch_after"]
    events = reader.read(GROUP_EVENTS.name, columns, during)
    found = events.group_by("group_id").aggregate(
        [
            *(("epoch_after", "count"), ("record_timestamp", "max"), ("epoch_after", "max")),
            ("group_type", "max"),
        ]
    )
    verdicts = {
        row["group_id"]: rebalancing_loop(
            row["epoch_after_count"],
            max(round((now - row["record_timestamp_max"]).total_seconds() * 1000), 0),
            row["epoch_after_max"],
            row["group_type_max"],
            rules,
        )
        for row in found.to_pylist()
        if row["epoch_after_count"] >= rules.rebalances
    }
    return {group: verdict for group, verdict in verdicts.items() if verdict is not None}
