"""Outcomes of offsets, computed over columns.

A plain commit or tombstone takes effect at once. A transactional commit is pending until the first
of three later records in its log partition: a marker of its producer id, another commit of its
producer id and key, or a tombstone that clears it. The rules are those of
`coordinator_state.replay.offsets.OffsetReplay`, which replays record by record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import Integers, Mask, numbers
from coordinator_state.records.record_types import NO_PRODUCER_ID
from coordinator_state.replay.offsets import (
    CONTROL_TYPE_ABORT,
    CONTROL_TYPE_COMMIT,
    Outcome,
    Semantics,
)

_OUTCOMES = list(Outcome)
_NAMES = pa.array([outcome.value for outcome in _OUTCOMES])
_NOTHING = -1
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcome of each row, and the record that decided it.

    `outcome` is an index into `_OUTCOMES`. `decided_by` is a row index; an index of at least the
    number of rows is a marker. Both are undefined for pending rows.
    """

    outcome: Integers
    decided_by: Integers
    is_pending: Mask

    def of(self, outcome: Outcome) -> Mask:
        """A mask of the rows with this outcome."""
        mask: Mask = ~self.is_pending & (self.outcome == _OUTCOMES.index(outcome))
        return mask

    def columns(self, rows: pa.Table, markers: pa.Table) -> dict[str, pa.Array]:
        """The three outcome columns of history."""
        decided_by = pa.array(self.decided_by)
        record_offsets, timestamps = (
            pa.concat_arrays([_one_array(rows[name]), _one_array(markers[name])])
            for name in ("record_offset", "record_timestamp_ms")
        )
        return {
            "outcome": _NAMES.take(pa.array(self.outcome)),
            "outcome_record_offset": record_offsets.take(decided_by),
            "outcome_timestamp_ms": timestamps.take(decided_by),
        }


def outcomes_of(
    rows: pa.Table, key_ids: Integers, markers: pa.Table, semantics: Semantics
) -> Outcomes:
    """Find the outcome of each row from the rows and markers of the micro-batch.

    Args:
        rows: offsets of the micro-batch and pending offsets.
        key_ids: an integer for each row; rows with the same key have the same integer.
        markers: the markers of all log partitions.
        semantics: the loader's rules.
    """
    count = rows.num_rows
    outcome = np.full(count, _OUTCOMES.index(Outcome.COMMITTED), dtype=np.int64)
    decided_by = np.arange(count, dtype=np.int64)
    is_pending = np.zeros(count, dtype=np.bool_)
    is_transactional, is_tombstone = (
        numbers(rows[name]) for name in ("is_transactional", "is_tombstone")
    )
    commits = np.flatnonzero(is_transactional & ~is_tombstone)
    if not len(commits):
        return Outcomes(outcome, decided_by, is_pending)
    # Below, one numbering covers the rows first, then the markers.
    producers = _producers(rows, markers)
    own_keys = key_ids * (producers.max() + 1) + producers[:count]
    record_offsets = _numbers("record_offset", rows, markers)
    ranks = np.unique(record_offsets, return_inverse=True)[1]
    control_types = _numbers("control_type", markers)
    if semantics is Semantics.COORDINATOR:
        ends = np.isin(control_types, (CONTROL_TYPE_ABORT, CONTROL_TYPE_COMMIT))
        clears, cleared_keys = is_tombstone, key_ids
    else:
        # The Scala loader treats a marker of any other type as ABORT.
        ends = np.ones(markers.num_rows, dtype=np.bool_)
        clears = is_tombstone & is_transactional
        cleared_keys = np.unique(own_keys, return_inverse=True)[1] if clears.any() else own_keys
    by_outcome = {
        Outcome.COMMITTED: _first_later(producers, ranks, commits, count + np.flatnonzero(ends)),
        Outcome.SUPERSEDED: _next_commit(own_keys, ranks, commits),
        Outcome.CLEARED: _first_later(cleared_keys, ranks, commits, np.flatnonzero(clears)),
    }
    # The first of these records decides.
    places = np.append(record_offsets, _NEVER)
    deciding = np.full(len(commits), _NOTHING)
    for kind, later in by_outcome.items():
        is_first = places[later] < places[deciding]
        deciding = np.where(is_first, later, deciding)
        outcome[commits[is_first]] = _OUTCOMES.index(kind)
    is_pending[commits] = deciding == _NOTHING
    decided_by[commits] = np.where(deciding == _NOTHING, commits, deciding)
    is_abort = np.append(np.zeros(count, dtype=np.bool_), control_types != CONTROL_TYPE_COMMIT)
    outcome[is_abort[decided_by]] = _OUTCOMES.index(Outcome.ABORTED)
    return Outcomes(outcome, decided_by, is_pending)


def _producers(rows: pa.Table, markers: pa.Table) -> Integers:
    """An integer for each row and each marker, equal for the same log partition and producer id."""
    ids = np.zeros(rows.num_rows + markers.num_rows, dtype=np.int64)
    for name in ("log_partition", "producer_id"):
        distinct, numbers = np.unique(_numbers(name, rows, markers), return_inverse=True)
        ids = ids * len(distinct) + numbers
    return np.unique(ids, return_inverse=True)[1]


def _first_later(
    groups: Integers, ranks: Integers, commits: Integers, others: Integers
) -> Integers:
    """For each commit, the first later one of the other records in its group, or `_NOTHING`."""
    if not len(others):
        return np.full(len(commits), _NOTHING)
    # This order groups the records, and sorts each group by record offset.
    order_keys = groups * (len(ranks) + 1) + ranks[: len(groups)]
    in_order = others[np.argsort(order_keys[others], kind="stable")]
    places = np.searchsorted(order_keys[in_order], order_keys[commits], side="right")
    later = np.append(in_order, _NOTHING)[places]
    is_own = (later != _NOTHING) & (groups[later] == groups[commits])
    return np.where(is_own, later, _NOTHING)


def _next_commit(own_keys: Integers, ranks: Integers, commits: Integers) -> Integers:
    """For each commit, the next one of the same producer and key, or `_NOTHING`."""
    order = np.lexsort((ranks[commits], own_keys[commits]))
    in_order = commits[order]
    is_same = own_keys[in_order[:-1]] == own_keys[in_order[1:]]
    next_commits = np.full(len(commits), _NOTHING)
    next_commits[order[:-1]] = np.where(is_same, in_order[1:], _NOTHING)
    return next_commits


def _numbers(name: str, *tables: pa.Table) -> Integers:
    """The numbers of a column; a plain record has no producer id."""
    columns = (pc.fill_null(_one_array(table[name]), NO_PRODUCER_ID) for table in tables)
    return np.concatenate([column.to_numpy() for column in columns]).astype(np.int64)


def _one_array(column: pa.ChunkedArray) -> Any:
    return column.combine_chunks()
