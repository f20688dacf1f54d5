"""The keys of a rule that may have a finding, found for all keys at once.

Few of many thousand groups meet a rule. `facts` looks only at those rows, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_status import Status
from coordinator_state.insight.lag import Bools, Int64s
from streaming.alerts.conditions import MEASURES, Comparison
from streaming.alerts.rules import EVERY, Rule, fits
from streaming.lag.judged_groups import JudgedGroups
from streaming.lag.judged_partitions import JudgedPartitions

Floats = npt.NDArray[np.float64]


def candidates(rule: Rule, partitions: JudgedPartitions, groups: JudgedGroups | None) -> Int64s:
    """The numbers of the partitions whose key may have a finding.

    `groups` is None if the status of a key is that of its worst partition. A condition that is
    unknown counts as one that may hold.
    """
    columns = partitions.columns
    is_wanted = _fitting(rule.groups, columns["group_id"]) & _fitting(rule.topics, columns["topic"])
    wanted = np.flatnonzero(is_wanted)
    columns, ranks = columns.take(pa.array(wanted)), partitions.ranks[wanted]
    keys = _numbered([columns[name] for name in rule.key])
    count = int(keys.max()) + 1 if keys.size else 0
    is_unknown = ranks == Status.UNKNOWN.rank
    may_hold = np.ones(count, np.bool_)
    if rule.status is not None:
        worst = np.zeros(count, np.int64)
        of_key = ranks if groups is None else groups.ranks_of_partitions()[wanted]
        np.maximum.at(worst, keys, of_key)
        is_any_unknown = np.bincount(keys[is_unknown], minlength=count) > 0
        may_hold &= has_status(rule.status, worst) | is_any_unknown
    for name, limit in rule.limits.items():
        may_hold &= _may_hold(name, limit, columns, is_unknown, keys, count)
    return wanted[may_hold[keys]]


def has_status(wanted: Sequence[Status], ranks: Int64s) -> Bools:
    """Whether a status is one of the wanted ones, or unknown."""
    return np.isin(ranks, [status.rank for status in (*wanted, Status.UNKNOWN)])


def _may_hold(
    name: str,
    limit: Comparison,
    columns: pa.Table,
    is_unknown: Bools,
    keys: Int64s,
    count: int,
) -> Bools:
    measure = MEASURES[name]
    values = _floats(columns[measure.lower_bound or measure.column])
    is_exact = ~np.isnan(_floats(columns[measure.column])) & ~is_unknown
    values[is_unknown] = np.nan
    if measure.is_age:
        values = np.maximum(values - np.nan_to_num(_floats(columns["behind_ms"])), 0)
    if measure.needs_lag:
        counts = _floats(columns["lag"]) != 0
        values, is_exact, keys = values[counts], is_exact[counts], keys[counts]
    is_partly_unknown = np.bincount(keys[~is_exact], minlength=count) > 0
    is_known = ~np.isnan(values)
    keys, values = keys[is_known], values[is_known]
    totals: Any
    if measure.total is sum:
        totals = np.bincount(keys, values, minlength=count)
    else:
        is_min = measure.total is min
        totals = np.full(count, np.inf if is_min else -np.inf)
        (np.minimum if is_min else np.maximum).at(totals, keys, values)
    has_value = np.bincount(keys, minlength=count) > 0
    return is_partly_unknown | (has_value & limit.holds(totals))


def _fitting(patterns: Sequence[str], names: pa.ChunkedArray) -> Bools:
    if patterns == EVERY:
        return np.ones(len(names), np.bool_)
    encoded = names.combine_chunks().dictionary_encode()
    fitting = [fits(patterns, name) for name in encoded.dictionary.to_pylist()]
    found: Bools = np.array(fitting, np.bool_)[encoded.indices.to_numpy()]
    return found


def _numbered(key: Sequence[pa.ChunkedArray]) -> Int64s:
    """A number for each distinct key, from 0."""
    codes = np.zeros(len(key[0]), np.int64)
    for column in key:
        encoded = column.combine_chunks().dictionary_encode()
        codes = codes * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
    found: Int64s = np.unique(codes, return_inverse=True)[1].reshape(-1)
    return found


def _floats(column: Any) -> Floats:
    found: Floats = np.array(pc.cast(column, pa.float64()).to_numpy())
    return found
