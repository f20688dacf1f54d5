"""Vectorized outcomes of offsets, except for keys with both a transaction and a tombstone.

A plain commit or tombstone takes effect at once. A transactional commit is pending until the first
later marker of its producer id in its log partition. If the same producer commits the key again
before that marker, the earlier commit is superseded. The rules are those of
`coordinator_state.replay.offsets.OffsetReplay`, which replays record by record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from coordinator_state.replay.offsets import (
    CONTROL_TYPE_ABORT,
    CONTROL_TYPE_COMMIT,
    Outcome,
    Semantics,
)

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_OUTCOMES = (Outcome.COMMITTED, Outcome.ABORTED, Outcome.SUPERSEDED)
_NAMES = pa.array([outcome.value for outcome in _OUTCOMES])
_COMMITTED, _ABORTED, _SUPERSEDED = range(len(_OUTCOMES))
_NOTHING = -1


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
    rows: pa.Table,
    key_ids: Integers,
    is_transactional: Mask,
    markers: pa.Table,
    semantics: Semantics,
) -> Outcomes:
    """Find the outcome of each row from the markers of the micro-batch.

    Args:
        rows: offsets of the micro-batch and pending offsets, without keys that have both a
            transactional row and a tombstone.
        key_ids: an integer for each row; rows with the same key have the same integer.
        is_transactional: a mask of the rows that need a marker.
        markers: the markers of all log partitions.
        semantics: the loader's rules.
    """
    outcome = np.full(rows.num_rows, _COMMITTED, dtype=np.int64)
    decided_by = np.arange(rows.num_rows, dtype=np.int64)
    is_pending = np.zeros(rows.num_rows, dtype=np.bool_)
    commit_rows = np.flatnonzero(is_transactional)
    if not len(commit_rows):
        return Outcomes(outcome, decided_by, is_pending)
    # Below, one numbering covers the transactional commits first, then the markers.
    marker_rows = np.flatnonzero(_ends_transactions(markers, semantics))
    commits, end_markers = rows.take(pa.array(commit_rows)), markers.take(pa.array(marker_rows))
    producer_ids = _producers(commits, end_markers)
    record_offsets = _numbers("record_offset", commits, end_markers)
    count = len(commit_rows)

    end_marker = _first_later_marker(producer_ids, record_offsets, count)
    next_commit = _next_commit(key_ids[commit_rows], producer_ids[:count], record_offsets[:count])
    has_end, has_next = end_marker != _NOTHING, next_commit != _NOTHING
    is_superseded = has_next & (
        ~has_end | (record_offsets[next_commit] < record_offsets[end_marker])
    )
    is_ended = has_end & ~is_superseded

    superseded_rows, ended_rows = commit_rows[is_superseded], commit_rows[is_ended]
    outcome[superseded_rows] = _SUPERSEDED
    decided_by[superseded_rows] = commit_rows[next_commit[is_superseded]]
    deciding_markers = end_marker[is_ended] - count
    is_commit = _numbers("control_type", end_markers)[deciding_markers] == CONTROL_TYPE_COMMIT
    outcome[ended_rows] = np.where(is_commit, _COMMITTED, _ABORTED)
    decided_by[ended_rows] = rows.num_rows + marker_rows[deciding_markers]
    is_pending[commit_rows[~is_superseded & ~is_ended]] = True
    return Outcomes(outcome, decided_by, is_pending)


def _ends_transactions(markers: pa.Table, semantics: Semantics) -> Mask:
    """A mask of the markers that end a transaction.

    The Scala loader treats a marker of any other type as ABORT.
    """
    if semantics is Semantics.SCALA:
        return np.ones(markers.num_rows, dtype=np.bool_)
    return np.isin(_numbers("control_type", markers), (CONTROL_TYPE_ABORT, CONTROL_TYPE_COMMIT))


def _producers(rows: pa.Table, markers: pa.Table) -> Integers:
    """An integer for each row and each marker, equal for the same log partition and producer id."""
    ids = np.zeros(rows.num_rows + markers.num_rows, dtype=np.int64)
    for name in ("log_partition", "producer_id"):
        distinct, numbers = np.unique(_numbers(name, rows, markers), return_inverse=True)
        ids = ids * len(distinct) + numbers
    return np.unique(ids, return_inverse=True)[1]


def _first_later_marker(
    producer_ids: Integers, record_offsets: Integers, commit_count: int
) -> Integers:
    """For each commit, the index of the first later marker of its producer, or `_NOTHING`.

    One numbering covers the commits first, then the markers.
    """
    _, ranks = np.unique(record_offsets, return_inverse=True)
    # This order groups the markers by producer and sorts each group by record offset.
    order_key = producer_ids * (len(ranks) + 1) + ranks
    markers_in_order = commit_count + np.argsort(order_key[commit_count:], kind="stable")
    first_later = np.searchsorted(
        order_key[markers_in_order], order_key[:commit_count], side="right"
    )
    marker_indexes = np.append(markers_in_order, _NOTHING)[first_later]
    is_own = (marker_indexes != _NOTHING) & (
        producer_ids[marker_indexes] == producer_ids[:commit_count]
    )
    return np.where(is_own, marker_indexes, _NOTHING)


def _next_commit(key_ids: Integers, producer_ids: Integers, record_offsets: Integers) -> Integers:
    """For each commit, the index of its producer's next commit of the same key, or `_NOTHING`."""
    order = np.lexsort((record_offsets, producer_ids, key_ids))
    earlier, later = order[:-1], order[1:]
    is_same = (key_ids[earlier] == key_ids[later]) & (producer_ids[earlier] == producer_ids[later])
    next_commits = np.full(len(key_ids), _NOTHING, dtype=np.int64)
    next_commits[earlier[is_same]] = later[is_same]
    return next_commits


def _numbers(name: str, *tables: pa.Table) -> Integers:
    return np.concatenate([_one_array(table[name]).to_numpy() for table in tables]).astype(np.int64)


def _one_array(column: pa.ChunkedArray) -> Any:
    return column.combine_chunks()
