"""The groups that the address of a page, or a request of the API, selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.lag_trend import Bools
from streaming.lag.recent_commits import KEY
from streaming.served.folded import Names, folded
from streaming.served.snapshot import ServedSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFilter:
    """Conditions that must all hold; an empty one holds for every group.

    Attributes:
        search: a part of the group id, in any case.
        group_ids: any of them.
        statuses: any of them.
        states: any of them.
        types: any of them.
        topics: groups with a committed offset of any of them; None for every group.
        is_growing: groups whose lag grows.
    """

    search: str = ""
    group_ids: Sequence[str] = ()
    statuses: Sequence[str] = ()
    states: Sequence[str] = ()
    types: Sequence[str] = ()
    topics: Sequence[str] | None = None
    is_growing: bool = False


def wanted_groups(snapshot: ServedSnapshot, wanted: GroupFilter) -> Bools:
    """A mask of the groups of `group_list` that a filter selects."""
    groups = snapshot.group_list
    found = np.ones(len(groups), np.bool_)
    for name, values in (
        ("group_id", wanted.group_ids),
        ("status", wanted.statuses),
        ("group_state", wanted.states),
        ("group_type", wanted.types),
    ):
        if values:
            found &= _is_in(groups.column(name), values)
    if wanted.search:
        found &= having_part(groups.column("group_id"), wanted.search)
    if wanted.topics is not None:
        lags = snapshot.evaluation.lag_columns(KEY)
        readers = lags["group_id"].filter(pa.array(_is_in(lags["topic"], wanted.topics)))
        found &= _is_in(groups.column("group_id"), pc.unique(readers))
    if wanted.is_growing:
        growing = pc.greater(groups.column("growth_per_s"), 0)
        found &= np.asarray(growing.fill_null(False))
    return found


def having_part(names: Names, part: str) -> Bools:
    """Whether each name has a part, in any case."""
    found: Bools = np.asarray(pc.match_substring(folded(names), part.casefold()))
    return found


def _is_in(column: pa.ChunkedArray, values: Any) -> Bools:
    wanted = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
    found: Bools = np.asarray(pc.is_in(column, wanted))
    return found
