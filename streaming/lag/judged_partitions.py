"""The status of each group in each partition, of many at once.

Most groups are caught up, or keep up with the producers. Arrow finds these, and only the others go
through the rules of `partition_status` one by one.
"""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_status import Status, StatusRules, Verdict
from coordinator_state.insight.lag import Int64s
from coordinator_state.insight.lag_trend import Floats, growths_per_s
from coordinator_state.insight.partition_facts import PartitionFacts
from coordinator_state.insight.partition_status import partition_status, well_status
from streaming.lag.partition_facts import FACTS
from streaming.lag.recent_commits import KEY

Row = dict[str, Any]

STATUS_NAMES: Final = pa.array(
    [status.value for status in sorted(Status, key=lambda status: status.rank)]
)
"""The statuses in the order of their ranks."""


def ranks_of(statuses: pa.ChunkedArray) -> Int64s:
    """The rank of each status."""
    return pc.index_in(statuses, STATUS_NAMES).to_numpy().astype(np.int64)


# The columns of `group_lag` that sums and `silent_members` need.
_OF_LAG: Final = [
    *KEY,
    *("lag", "is_lag_lower_bound", "time_lag_ms", "time_lag_at_least_ms", "retention_margin_ms"),
    *("commit_rate_per_s", "produce_rate_per_s"),
    *("member_id", "committed_offset"),
]

# The arguments of `growths_per_s`, by their names.
_OF_GROWTH: Final = [
    *("commit_rate_per_s", "present_rate_per_s", "commits_from_ms", "usual_move_ms"),
    *("moved_at_ms", "at_ms"),
]


class JudgedPartitions:
    """The status of each row of `group_lag`, in their order; reasons are made on request.

    Args:
        lags: the rows of `group_lag`.
        facts: their `partition_facts`.
        rules: the limits.
        stale: the verdict about every partition if the tables are stale.
    """

    def __init__(
        self, lags: pa.Table, facts: pa.Table, rules: StatusRules, stale: Verdict | None
    ) -> None:
        self.columns: pa.Table = lags.select(_OF_LAG)
        self._facts = facts.select(FACTS)
        self._rules = rules
        self.stale = stale
        self._is_well = facts["is_well"].to_numpy()
        self._has_members = facts["has_members"].to_numpy()
        self.is_uncommitted = pc.is_valid(facts["uncommitted_ms"]).to_numpy()
        self.is_caught_up = self._is_well & pc.equal(facts["lag"], 0).fill_null(False).to_numpy()
        self.ranks: Int64s = self._ranks()

    def __len__(self) -> int:
        return self.columns.num_rows

    @cached_property
    def trends(self) -> pa.Table:
        """`growth_per_s`, as the rows have it, and `time_to_catch_up_ms` of each row.

        `is_open_ended` says that the group will not catch up in the partition at its present rate.
        """
        of_facts = {name: floats_of(self._facts[name]) for name in _OF_GROWTH}
        rates = (of_facts[name] for name in ("present_rate_per_s", "commit_rate_per_s"))
        growth = np.where(self._is_well, np.subtract(*rates), growths_per_s(**of_facts))
        catch_up_ms = self._facts["time_to_catch_up_ms"]
        is_behind = pc.greater(self._facts["lag"], 0).fill_null(False)
        is_open_ended = pc.and_(is_behind, pc.is_null(catch_up_ms))
        return pa.table(
            {
                "growth_per_s": pa.array(growth, from_pandas=True),
                "time_to_catch_up_ms": catch_up_ms,
                "is_open_ended": is_open_ended,
            }
        )

    def usual(self, name: str) -> pa.ChunkedArray:
        """The column of a usual time of the rows; null where it was not needed."""
        return self._facts[name]

    @property
    def statuses(self) -> pa.Array:
        """The status of each row."""
        return STATUS_NAMES.take(pa.array(self.ranks))

    def reasons(self, numbers: Int64s) -> pa.Array:
        """The reasons of the rows with these numbers, faster than `rows`."""
        if self.stale is not None:
            return pa.repeat(self.stale.reason, numbers.size)
        reasons = np.full(numbers.size, None, object)
        is_well, is_caught_up = self._is_well[numbers], self.is_caught_up[numbers]
        has_members, is_uncommitted = self._has_members[numbers], self.is_uncommitted[numbers]
        for known, is_new in product((False, True), repeat=2):
            reason = well_status(0, 0, has_members=known, is_uncommitted=is_new).reason
            reasons[is_caught_up & (has_members == known) & (is_uncommitted == is_new)] = reason
        is_behind = is_well & ~is_caught_up
        behind = self._facts.select(["lag", "time_lag_ms"]).take(pa.array(numbers[is_behind]))
        reasons[is_behind] = [
            well_status(*lags, has_members=known).reason
            for *lags, known in zip(
                *(column.to_pylist() for column in behind.columns),
                has_members[is_behind],
                strict=True,
            )
        ]
        reasons[~is_well] = [self._others[number][0].reason for number in numbers[~is_well]]
        return pa.array(reasons, pa.string())

    def rows(self, numbers: Int64s) -> list[Row]:
        """The rows with these numbers.

        They have the columns from which the reason of a group is made: those of sums, `status`,
        `reason`, `cause`, `lag_text` and `growth_per_s`.
        """
        rows = rows_of(self.columns.take(pa.array(numbers)))
        is_well = self._is_well[numbers]
        known_of = (
            self._facts[name].take(pa.array(numbers)).to_pylist()
            for name in ("time_lag_ms", "has_members", "present_rate_per_s", "commit_rate_per_s")
        )
        is_new = self.is_uncommitted[numbers]
        for number, row, well, is_uncommitted, oldest_ms, has_members, *rates in zip(
            numbers, rows, is_well, is_new, *known_of, strict=True
        ):
            if well:
                growth_per_s = None if None in rates else rates[0] - rates[1]
                verdict = well_status(
                    row["lag"], oldest_ms, has_members=has_members, is_uncommitted=is_uncommitted
                )
            else:
                verdict, growth_per_s = self._others[number]
            verdict = self.stale or verdict
            row["status"], row["reason"] = verdict.status.value, verdict.reason
            row["cause"], row["lag_text"], row["growth_per_s"] = *verdict[1:], growth_per_s
        return rows

    @cached_property
    def _others(self) -> dict[int, tuple[Verdict, float | None]]:
        """The verdict and the growth of each row that is not well, by number."""
        others = np.flatnonzero(~self._is_well)
        facts = (PartitionFacts(**r) for r in rows_of(self._facts.take(pa.array(others))))
        return {
            int(number): (partition_status(known, self._rules), known.growth_per_s)
            for number, known in zip(others, facts, strict=True)
        }

    def _ranks(self) -> Int64s:
        """The rank of each row's status."""
        if self.stale is not None:
            return np.full(len(self), self.stale.status.rank)
        ranks = np.full(len(self), Status.OK.rank)
        for number, (verdict, _) in self._others.items():
            ranks[number] = verdict.status.rank
        return ranks


def rows_of(table: pa.Table) -> list[Row]:
    """The rows as dicts; several times as fast as `to_pylist`."""
    names = table.column_names
    columns = [column.to_pylist() for column in table.columns]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def floats_of(column: Any) -> Floats:
    """A column of numbers; null is NaN."""
    # A lag beyond 2^53 is rounded.
    floats: Floats = pc.cast(column, pa.float64(), safe=False).to_numpy()
    return floats
