"""The status of each group: that of its worst partition, or of the group itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import floats_of, rows_of, with_columns
from coordinator_state.insight.group_status import (
    HEALTHY,
    Status,
    StatusRules,
    Verdict,
    reason_of,
)
from coordinator_state.insight.lag_text import behind_text, details_text
from coordinator_state.insight.lag_trend import without_noise
from streaming.lag.group_verdicts import group_verdicts
from streaming.lag.partition_statuses import ranks_of, trends
from streaming.tables.reader import TableReader

Row = dict[str, Any]

_OK_NAMES: Final = pa.array([status.value for status in HEALTHY])
_TOTALS: Final = (
    ("partition", "count", "partitions"),
    ("is_not_ok", "sum", "partitions_not_ok"),
    ("lag", "sum", "lag"),
    ("is_lag_lower_bound", "max", "is_lag_lower_bound"),
    ("time_lag_ms", "max", "max_time_lag_ms"),
    ("time_lag_at_least_ms", "max", "max_time_lag_at_least_ms"),
    ("retention_margin_ms", "min", "min_retention_margin_ms"),
    ("commit_rate_per_s", "sum", "commit_rate_per_s"),
    ("produce_rate_per_s", "sum", "produce_rate_per_s"),
    ("growth_per_s", "sum", "growth_per_s"),
    ("time_to_catch_up_ms", "max", "time_to_catch_up_ms"),
    ("is_open_ended", "max", "is_open_ended"),
)
_OF_REASON: Final = ["topic", "partition", "status", "reason", "cause"]
_CAUSED_BY_REBALANCES: Final = frozenset({Status.STALL, Status.STOP})
"""The statuses of a partition that rebalances cause."""
_OF_WORST: Final = ["group_id", *_OF_REASON, "lag", "text", "has_lag_text"]


def group_statuses(
    reader: TableReader,
    now: datetime,
    group_ids: Collection[str] | None,
    rules: StatusRules,
    partitions: pa.Table,
    stale: Verdict | None,
) -> pa.Table:
    """The rows of `group_status`, sorted by group, without the times.

    A column may be missing that is null for all groups.

    `growth_per_s` is without noise, and `time_to_catch_up_ms` null unless the group will have
    caught up in all partitions. These and the two rates are null in stale tables.

    Args:
        reader: the snapshot.
        now: the moment.
        group_ids: only these groups.
        rules: the limits.
        partitions: their rows of `with_statuses`, sorted by the key.
        stale: the verdict about every group if the tables are stale.
    """
    groups, verdicts = group_verdicts(
        reader, now, group_ids, rules, partitions, is_stale=stale is not None
    )
    return rows_of_groups(groups, partitions, verdicts, stale)


def rows_of_groups(
    groups: pa.Table,
    partitions: pa.Table,
    verdicts: Mapping[str, Sequence[Verdict]],
    stale: Verdict | None,
) -> pa.Table:
    """The same for `group_id`, `group_type`, `state` and `member_count` of each group.

    `verdicts` has those about groups themselves.
    """
    groups = groups.select(["group_id", "group_type", "state", "member_count"])
    groups = groups.rename_columns(["group_id", "group_type", "group_state", "member_count"])
    groups = groups.sort_by("group_id").combine_chunks()
    totals = _totals(groups, partitions)
    if stale is not None:
        # No group and no partition has a status of its own.
        size = groups.num_rows
        rates = ("commit_rate_per_s", "produce_rate_per_s", "growth_per_s", "time_to_catch_up_ms")
        statuses = {"status": pa.repeat(stale.status.value, size)}
        statuses |= {"reason": pa.repeat(stale.reason, size)}
        statuses |= {name: pa.nulls(size, totals[name].type) for name in (*rates, "trend")}
        return with_columns(groups, totals | statuses)
    return with_columns(groups, totals | _statuses(groups, partitions, totals, verdicts))


def _totals(groups: pa.Table, partitions: pa.Table) -> dict[str, Any]:
    is_ok = pc.is_in(partitions["status"], _OK_NAMES)
    is_behind = pc.greater(partitions["lag"], 0).fill_null(False)
    columns = {
        "is_not_ok": pc.invert(is_ok),
        "is_open_ended": pc.and_(is_behind, pc.is_null(partitions["time_to_catch_up_ms"])),
    }
    aggregates = (
        with_columns(partitions, columns)
        .group_by("group_id")
        .aggregate([(source, function) for source, function, _ in _TOTALS])
    )
    places = pc.index_in(groups["group_id"], aggregates["group_id"])
    totals = {
        name: aggregates[f"{source}_{function}"].take(places) for source, function, name in _TOTALS
    }
    for name in ("partitions", "partitions_not_ok"):
        totals[name] = totals[name].fill_null(0)
    is_empty = pc.and_(pc.is_null(places), pc.equal(groups["member_count"], 0))
    totals["lag"] = pc.if_else(is_empty, 0, totals["lag"])
    totals["is_lag_lower_bound"] = pc.if_else(is_empty, False, totals["is_lag_lower_bound"])
    is_open_ended = totals.pop("is_open_ended")
    totals["time_to_catch_up_ms"] = pc.if_else(is_open_ended, None, totals["time_to_catch_up_ms"])
    # The reason of a group has its growth with noise.
    totals["total_growth_per_s"] = totals["growth_per_s"]
    rates = ("growth_per_s", "lag", "commit_rate_per_s", "produce_rate_per_s")
    growth = without_noise(*(floats_of(totals[name]) for name in rates))
    totals |= {"growth_per_s": pa.array(growth, from_pandas=True), "trend": trends(growth)}
    return totals


def _statuses(
    groups: pa.Table,
    partitions: pa.Table,
    totals: Mapping[str, Any],
    verdicts: Mapping[str, Sequence[Verdict]],
) -> dict[str, Any]:
    """The status of each group with its reason and cause, and the partition with it."""
    worst = _worst(partitions)
    worst = worst.take(pc.index_in(groups["group_id"], worst["group_id"]))
    is_ok = pc.is_in(worst["status"], _OK_NAMES)
    is_plain = pc.or_kleene(
        pc.or_(pc.equal(totals["partitions"], 1), pc.equal(worst["status"], Status.UNKNOWN.value)),
        pc.and_not(is_ok, worst["has_lag_text"]),
    )
    has_verdict = pc.is_in(groups["group_id"], pa.array([*verdicts], pa.string()))
    is_plain = pc.and_not(is_plain, has_verdict).fill_null(False).to_numpy()
    rows = with_columns(worst, {f"of_group_{name}": column for name, column in totals.items()})
    rows = with_columns(rows, {"group_id": groups["group_id"]})
    others = pa.array(~is_plain)
    reasons = [
        _reason(row, verdicts.get(row["group_id"], ())) for row in rows_of(rows.filter(others))
    ]
    columns = {}
    for name in _OF_REASON:
        own = pa.array([reason.get(name) for reason in reasons], worst[name].type)
        columns[name] = pc.replace_with_mask(worst[name], others, own)
    return columns


def _worst(partitions: pa.Table) -> pa.Table:
    """The worst partition (`_OF_WORST`) of each group.

    Of equally bad ones it is the one with the most records to read, then the first, if possible
    with a committed offset.
    """
    size, ids = partitions.num_rows, partitions["group_id"].combine_chunks()
    if not size:
        return partitions.select(_OF_WORST)
    changes = pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
    first = np.append(0, 1 + np.flatnonzero(changes))
    sizes = np.diff(first, append=size)
    is_worst = np.ones(size, np.bool_)
    for values in (ranks_of(partitions["status"]), partitions["lag"].fill_null(0).to_numpy()):
        worst_values = np.where(is_worst, values, np.iinfo(np.int64).min)
        is_worst &= worst_values == np.repeat(np.maximum.reduceat(worst_values, first), sizes)
    order = np.arange(size) + size * pc.is_valid(partitions["uncommitted_since"]).to_numpy()
    numbers = np.minimum.reduceat(np.where(is_worst, order, 2 * size), first) % size
    return partitions.select(_OF_WORST).take(pa.array(numbers))


def _reason(row: Row, verdicts: Sequence[Verdict]) -> Row:
    """The status of a group with its reason and cause, and the partition with it.

    Args:
        row: its worst partition, if it reads one, and its totals.
        verdicts: those of the group itself.
    """
    own = max(verdicts, key=lambda verdict: verdict.status.rank, default=Verdict(Status.IDLE, ""))
    own_cause = own.cause and own.cause.value
    if row["status"] is None or own.status.rank > Status(row["status"]).rank:
        return {"status": own.status.value, "reason": own.reason, "cause": own_cause}
    reason = row["reason"] if row["of_group_partitions"] == 1 else _reason_of_several(row)
    verdict = {**{name: row[name] for name in _OF_REASON}, "reason": reason}
    if own.status is Status.REBALANCING_LOOP:
        verdict["reason"] = f"{own.reason}; {reason}"
        if Status(row["status"]) in _CAUSED_BY_REBALANCES:
            verdict["cause"] = own_cause
    return verdict


def _reason_of_several(row: Row) -> str:
    """The reason of the worst partition under its name, then the lag of the whole group."""
    reason: str = row["reason"]
    status = Status(row["status"])
    is_ok = status in HEALTHY
    if status is Status.UNKNOWN or (is_ok and not row["has_lag_text"]):
        return reason
    at_least_ms = row["of_group_max_time_lag_at_least_ms"]
    is_known = at_least_ms == row["of_group_max_time_lag_ms"]
    growth = None if is_ok else row["of_group_total_growth_per_s"]
    details = details_text(at_least_ms if is_known else None, at_least_ms, growth)
    bound = row["of_group_is_lag_lower_bound"]
    whole = behind_text(row["of_group_lag"] or 0, is_lower_bound=bound) + details
    prefix = f"{row['topic']}:{row['partition']}: "
    if is_ok:
        return reason_of(prefix + row["text"], whole) if row["text"] else whole
    reason = prefix + reason
    if not row["has_lag_text"] or row["lag"] == row["of_group_lag"]:
        return reason
    return reason_of(reason, f"the group: {whole}")
