"""The status of each group in each partition, of many at once.

Most groups are caught up, or keep up with the producers. Arrow finds these, and only the others go
through the rules of `partition_status` one by one.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import floats_of, rows_of, with_columns
from coordinator_state.insight.group_status import Status, StatusRules, Verdict
from coordinator_state.insight.lag import Int64s
from coordinator_state.insight.lag_trend import Floats, Trend, growths_per_s, without_noise
from coordinator_state.insight.partition_facts import PartitionFacts
from coordinator_state.insight.partition_status import partition_status, well_status
from streaming.lag.partition_facts import FACTS

STATUS_NAMES: Final = pa.array(
    [status.value for status in sorted(Status, key=lambda status: status.rank)]
)
"""The statuses in the order of their ranks."""
# The arguments of `growths_per_s`, by their names.
_OF_GROWTH: Final = [
    *("commit_rate_per_s", "present_rate_per_s", "commits_from_ms", "usual_move_ms"),
    *("moved_at_ms", "at_ms"),
]


def ranks_of(statuses: pa.ChunkedArray) -> Int64s:
    """The rank of each status."""
    return pc.index_in(statuses, STATUS_NAMES).to_numpy().astype(np.int64)


def with_statuses(
    lags: pa.Table, facts: pa.Table, rules: StatusRules, stale: Verdict | None
) -> pa.Table:
    """The rows of `group_lag` with their status, reason, cause and trend.

    Two more columns are the `text` of the verdict, which is empty if the group is well, and
    `has_lag_text`: whether the reason ends with the lag.

    Args:
        lags: the rows of `group_lag`.
        facts: their `partition_facts`.
        rules: the limits.
        stale: the verdict about every partition if the tables are stale.
    """
    size, is_well = lags.num_rows, facts["is_well"].to_numpy()
    texts, causes = np.full(size, "", object), np.full(size, None, object)
    is_behind = pc.greater(facts["lag"], 0).fill_null(False).to_numpy()
    if stale is not None:
        ranks, reasons = np.full(size, stale.status.rank), np.full(size, stale.reason, object)
        has_lag_text = np.zeros(size, np.bool_)
    else:
        ranks, reasons = np.full(size, Status.OK.rank), np.full(size, None, object)
        has_lag_text = is_behind & is_well
        has_members = facts["has_members"].to_numpy()
        is_uncommitted = pc.is_valid(facts["uncommitted_ms"]).to_numpy()
        is_caught_up = is_well & ~is_behind
        for known, is_new in product((False, True), repeat=2):
            reason = well_status(0, 0, has_members=known, is_uncommitted=is_new).reason
            reasons[is_caught_up & (has_members == known) & (is_uncommitted == is_new)] = reason
        behind = facts.select(["lag", "time_lag_ms"]).filter(pa.array(has_lag_text))
        reasons[has_lag_text] = [
            well_status(lag, oldest_ms, has_members=True).reason
            for lag, oldest_ms in zip(*(column.to_pylist() for column in behind), strict=True)
        ]
        others = facts.select(FACTS).filter(pa.array(~is_well))
        verdicts = [partition_status(PartitionFacts(**row), rules) for row in rows_of(others)]
        ranks[~is_well] = [verdict.status.rank for verdict in verdicts]
        reasons[~is_well] = [verdict.reason for verdict in verdicts]
        texts[~is_well] = [verdict.text for verdict in verdicts]
        causes[~is_well] = [verdict.cause and verdict.cause.value for verdict in verdicts]
        has_lag_text[~is_well] = [bool(verdict.lag_text) for verdict in verdicts]
    growth = _growth_per_s(facts, is_well)
    rates = ("lag", "commit_rate_per_s", "produce_rate_per_s")
    trend = without_noise(growth, *(floats_of(lags[name]) for name in rates))
    columns = {
        "status": STATUS_NAMES.take(pa.array(ranks)),
        "reason": pa.array(reasons, pa.string()),
        "growth_per_s": pa.array(growth, from_pandas=True),
        "trend": trends(trend),
        **{name: facts[name] for name in ("usual_commit_ms", "usual_move_ms")},
        "cause": pa.array(causes, pa.string()),
        "text": pa.array(texts, pa.string()),
        "has_lag_text": pa.array(has_lag_text),
    }
    return with_columns(lags, columns)


def _growth_per_s(facts: pa.Table, is_well: Any) -> Floats:
    columns = {name: floats_of(facts[name]) for name in _OF_GROWTH}
    moving = columns["present_rate_per_s"] - columns["commit_rate_per_s"]
    return np.where(is_well, moving, growths_per_s(**columns))


def trends(growth_per_s: Floats) -> pa.Array:
    """The trend of each growth without noise; null if it is unknown."""
    signs = np.sign(np.nan_to_num(growth_per_s)).astype(np.int64) + 1
    names = pa.array([Trend.of(sign).value for sign in (-1, 0, 1)])
    return names.take(pa.array(signs, mask=np.isnan(growth_per_s)))
