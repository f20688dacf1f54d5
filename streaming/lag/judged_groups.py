"""The status of each group: that of its worst partition, or of the group itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import with_columns
from coordinator_state.insight.group_status import Status, Verdict, reason_of
from coordinator_state.insight.lag import UNKNOWN, Bools, Int64s
from coordinator_state.insight.lag_text import behind_text, details_text
from coordinator_state.insight.lag_trend import without_noise
from streaming.lag.judged_partitions import STATUS_NAMES, JudgedPartitions, floats_of, rows_of

Row = dict[str, Any]

_OK_STATUSES: Final = frozenset({Status.OK, Status.IDLE})
_OF_REASON: Final = [
    *("group_id", "partitions", "lag", "is_lag_lower_bound"),
    *("max_time_lag_ms", "max_time_lag_at_least_ms"),
]
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


REASON: Final = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("reason", pa.string())]
)
"""The reason of a group's status, and the partition with it; null if it is of the group."""


class JudgedGroups:
    """The status of each group, sorted by group; reasons are made on request.

    Args:
        groups: `group_id`, `group_type`, `state` and `member_count` of each group.
        partitions: the partitions of these groups.
        verdicts: the verdicts about groups themselves, by group.
    """

    def __init__(
        self,
        groups: pa.Table,
        partitions: JudgedPartitions,
        verdicts: Mapping[str, Sequence[Verdict]],
    ) -> None:
        self._groups = groups.sort_by("group_id").combine_chunks()
        self._partitions = partitions
        self._verdicts = verdicts
        self._first, self._past = self._slices()

    def __len__(self) -> int:
        return self._groups.num_rows

    @cached_property
    def ranks(self) -> Int64s:
        """The rank of each group's status."""
        ranks = np.full(len(self), Status.IDLE.rank)
        ranks[self._has_offsets] = self._of_each(np.maximum, self._partitions.ranks)
        for number, group_id in enumerate(self._groups["group_id"].to_pylist()):
            for verdict in self._verdicts.get(group_id, ()):
                ranks[number] = max(ranks[number], verdict.status.rank)
        stale = self._partitions.stale
        return ranks if stale is None else np.full(len(self), stale.status.rank)

    @cached_property
    def table(self) -> pa.Table:
        """The columns of `group_status` but for the trend, the reason and the times.

        `growth_per_s` is without noise, and `time_to_catch_up_ms` null unless the group will have
        caught up in all partitions. These and the two rates are null in stale tables.
        """
        is_not_ok = ~np.isin(self._partitions.ranks, [status.rank for status in _OK_STATUSES])
        rows = self._partitions.columns.append_column("is_not_ok", pa.array(is_not_ok))
        trends = self._partitions.trends
        for name in trends.column_names:
            rows = rows.append_column(name, trends[name])
        aggregates = rows.group_by("group_id").aggregate(
            [(source, function) for source, function, _ in _TOTALS]
        )
        places = pc.index_in(self._groups["group_id"], aggregates["group_id"])
        totals = {
            name: aggregates[f"{source}_{function}"].take(places)
            for source, function, name in _TOTALS
        }
        for name in ("partitions", "partitions_not_ok"):
            totals[name] = totals[name].fill_null(0)
        is_empty = pc.and_(pc.is_null(places), pc.equal(self._groups["member_count"], 0))
        totals["lag"] = pc.if_else(is_empty, 0, totals["lag"])
        totals["is_lag_lower_bound"] = pc.if_else(is_empty, False, totals["is_lag_lower_bound"])
        totals |= self._trends(totals)
        names = ["group_id", "group_type", "group_state", "member_count"]
        groups = self._groups.select(["group_id", "group_type", "state", "member_count"])
        statuses = {"status": STATUS_NAMES.take(pa.array(self.ranks))}
        return with_columns(groups.rename_columns(names), statuses | totals)

    def _trends(self, totals: dict[str, Any]) -> dict[str, Any]:
        """The columns of the trend; `is_open_ended` is removed from the totals."""
        is_open_ended = totals.pop("is_open_ended")
        names = ("growth_per_s", "lag", "commit_rate_per_s", "produce_rate_per_s")
        growth = without_noise(*(floats_of(totals[name]) for name in names))
        catch_up_ms = totals["time_to_catch_up_ms"]
        trends = {
            "commit_rate_per_s": totals["commit_rate_per_s"],
            "produce_rate_per_s": totals["produce_rate_per_s"],
            "growth_per_s": pa.array(growth, from_pandas=True),
            "time_to_catch_up_ms": pc.if_else(is_open_ended, None, catch_up_ms),
        }
        if self._partitions.stale is not None:
            return {name: pa.nulls(len(self), column.type) for name, column in trends.items()}
        return trends

    def reasons(self, numbers: Int64s) -> pa.Table:
        """The reasons (`REASON`) of the groups with these numbers."""
        stale = self._partitions.stale
        if stale is not None:
            # No partition has a status of its own.
            rows = [{"reason": stale.reason}] * numbers.size
            return pa.Table.from_pylist(rows, REASON)
        is_plain = self._is_plain[numbers]
        heads = self._heads[numbers[is_plain]]
        places = self._partitions.columns.select(["topic", "partition"]).take(pa.array(heads))
        plain = places.append_column("reason", self._partitions.reasons(heads))
        others = pa.Table.from_pylist(self._reasons_of_others(numbers[~is_plain]), REASON)
        order = np.argsort(np.append(np.flatnonzero(is_plain), np.flatnonzero(~is_plain)))
        return pa.concat_tables([plain.cast(REASON), others]).take(pa.array(order))

    def _reasons_of_others(self, numbers: Int64s) -> list[Row]:
        """The reasons of groups with something to read, without offsets, or with own verdicts."""
        has_offsets = self._has_offsets[numbers]
        worst = iter(self._partitions.rows(self._worst[numbers[has_offsets]]))
        groups = self.table.select(_OF_REASON).take(pa.array(numbers))
        groups = groups.append_column("total_growth_per_s", self._growths.take(pa.array(numbers)))
        return [
            _reason(
                group, next(worst) if has_own else None, self._verdicts.get(group["group_id"], ())
            )
            for group, has_own in zip(rows_of(groups), has_offsets, strict=True)
        ]

    @cached_property
    def _growths(self) -> pa.Array:
        """The growth of the lag of each group, with noise; null if no partition has one."""
        growths = floats_of(self._partitions.trends["growth_per_s"])
        totals = np.full(len(self), np.nan)
        totals[self._has_offsets] = np.where(
            self._of_each(np.logical_or, ~np.isnan(growths)),
            self._of_each(np.add, np.nan_to_num(growths)),
            np.nan,
        )
        return pa.array(totals, from_pandas=True)

    @cached_property
    def _worst(self) -> Int64s:
        """The number of the worst partition of each group.

        Of equally bad ones it is the one with the most records to read, and then the first as in
        `_heads`.
        """
        ranks, lags = self._partitions.ranks, self._partitions.columns["lag"]
        sizes = (self._past - self._first)[self._has_offsets]
        is_worst = ranks == np.repeat(self._of_each(np.maximum, ranks), sizes)
        records = np.where(is_worst, lags.fill_null(0).to_numpy(), np.iinfo(np.int64).min)
        is_worst &= records == np.repeat(self._of_each(np.maximum, records), sizes)
        return self._first_of(is_worst)

    @cached_property
    def _heads(self) -> Int64s:
        """The number of the first partition of each group, if possible with a committed offset."""
        return self._first_of(np.ones(len(self._partitions), np.bool_))

    def _first_of(self, is_wanted: Bools) -> Int64s:
        """The number of the first wanted partition of each group, as `_heads`."""
        size = len(self._partitions)
        order = np.arange(size) + size * self._partitions.is_uncommitted
        first = np.full(len(self), UNKNOWN)
        first[self._has_offsets] = self._of_each(
            np.minimum, np.where(is_wanted, order, 2 * size)
        ) % max(size, 1)
        return first

    @cached_property
    def _has_offsets(self) -> Bools:
        """Whether the group has a row in `group_lag`."""
        return self._past > self._first

    def _of_each(self, function: np.ufunc, values: Int64s) -> Int64s:
        """A function of the rows of each group with offsets."""
        starts = self._first[self._has_offsets]
        return function.reduceat(values, starts) if starts.size else starts

    @cached_property
    def _is_plain(self) -> Any:
        """Whether the group has offsets, and nothing to read in any partition."""
        is_plain = self._has_offsets.copy()
        is_plain[is_plain] = self._of_each(np.logical_and, self._partitions.is_caught_up)
        has_verdict = [
            group_id in self._verdicts for group_id in self._groups["group_id"].to_pylist()
        ]
        return is_plain & ~np.array(has_verdict, np.bool_)

    def _slices(self) -> tuple[Int64s, Int64s]:
        """The first partition of each group, and the one after the last."""
        ids = self._partitions.columns["group_id"].combine_chunks()
        first = np.zeros(len(self), np.int64)
        past = first.copy()
        if len(ids):
            changes = pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
            starts = np.append(0, 1 + np.flatnonzero(changes))
            number = pc.index_in(ids.take(pa.array(starts)), self._groups["group_id"]).to_numpy()
            first[number] = starts
            past[number] = np.append(starts[1:], len(ids))
        return first, past


def _reason(group: Row, worst: Row | None, verdicts: Sequence[Verdict]) -> Row:
    """The reason of a group's status.

    Args:
        group: the columns `_OF_REASON`, and `total_growth_per_s`.
        worst: its worst partition; None if it reads none.
        verdicts: those of the group itself.
    """
    own = max(verdicts, key=lambda verdict: verdict.status.rank, default=Verdict(Status.IDLE, ""))
    if worst is None or own.status.rank > Status(worst["status"]).rank:
        return {"reason": own.reason}
    reason = worst["reason"]
    if group["partitions"] > 1:
        reason = _reason_of_several(worst, group)
    if own.status is Status.REBALANCING_LOOP:
        # The rebalances cause the problem of the partition.
        reason = f"{own.reason}; {reason}"
    return {"topic": worst["topic"], "partition": worst["partition"], "reason": reason}


def _reason_of_several(worst: Row, of_group: Row) -> str:
    """The reason of the worst partition under its name, then the lag of the whole group."""
    reason: str = worst["reason"]
    status = Status(worst["status"])
    if status is Status.UNKNOWN or (status in _OK_STATUSES and not worst["lag_text"]):
        return reason
    is_ok = status in _OK_STATUSES
    at_least_ms = of_group["max_time_lag_at_least_ms"]
    is_known = at_least_ms == of_group["max_time_lag_ms"]
    growth = None if is_ok else of_group["total_growth_per_s"]
    details = details_text(at_least_ms if is_known else None, at_least_ms, growth)
    bound = of_group["is_lag_lower_bound"]
    whole = behind_text(of_group["lag"] or 0, is_lower_bound=bound) + details
    if is_ok:
        return whole
    reason = f"{worst['topic']}:{worst['partition']}: {reason}"
    if not worst["lag_text"] or worst["lag"] == of_group["lag"]:
        return reason
    return reason_of(reason, f"the group: {whole}")
