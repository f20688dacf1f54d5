"""What becomes of offsets, over columns, but for keys of transactions that have a tombstone too.

A plain commit takes part at once, and so does a tombstone. One in a transaction waits for the first
later marker of its producer id in its log partition, unless the same producer commits the key again
before that.
`coordinator_state.replay.offsets.OffsetReplay` is where these rules are from, one record at a time.
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
    """What became of each row, and by which record.

    `ended_by` is the number of a row, or that of a marker counted on behind the rows. Of a row that
    still waits neither tells anything.
    """

    outcome: Integers
    ended_by: Integers
    is_waiting: Mask

    @property
    def takes_part(self) -> Mask:
        """Rows whose offsets are committed."""
        found: Mask = ~self.is_waiting & (self.outcome == _COMMITTED)
        return found

    def of(self, outcome: Outcome) -> Mask:
        """Rows with an outcome."""
        found: Mask = ~self.is_waiting & (self.outcome == _OUTCOMES.index(outcome))
        return found

    def columns(self, rows: pa.Table, markers: pa.Table) -> dict[str, pa.Array]:
        """The columns of history that tell it."""
        ended_by = pa.array(self.ended_by)
        record_offsets, timestamps = (
            pa.concat_arrays([_one_array(rows[name]), _one_array(markers[name])])
            for name in ("record_offset", "record_timestamp_ms")
        )
        return {
            "outcome": _NAMES.take(pa.array(self.outcome)),
            "outcome_record_offset": record_offsets.take(ended_by),
            "outcome_timestamp_ms": timestamps.take(ended_by),
        }


def outcomes_of(
    rows: pa.Table, codes: Integers, waits: Mask, markers: pa.Table, semantics: Semantics
) -> Outcomes:
    """Tell what becomes of the rows by the markers of the micro-batch.

    Args:
        rows: offsets, those that waited before among them; none of a key that has both a row that
            waits and a tombstone.
        codes: an integer for each row, the same for the same key.
        waits: which rows are of a transaction.
        markers: of all log partitions.
        semantics: the loader whose rules hold.
    """
    count = rows.num_rows
    outcome = np.full(count, _COMMITTED, dtype=np.int64)
    ended_by = np.arange(count, dtype=np.int64)
    is_waiting = np.zeros(count, dtype=np.bool_)
    of_rows = np.flatnonzero(waits)
    if not len(of_rows):
        return Outcomes(outcome, ended_by, is_waiting)
    of_markers = np.flatnonzero(_ends(markers, semantics))
    some, ends = rows.take(pa.array(of_rows)), markers.take(pa.array(of_markers))
    producers, offsets = _producers(some, ends), _numbers("record_offset", some, ends)
    size = len(of_rows)
    marker = _first_behind(producers, offsets, size)
    again = _next_commit(codes[of_rows], producers[:size], offsets[:size])
    has_end, is_again = marker != _NOTHING, again != _NOTHING
    is_superseded = is_again & (~has_end | (offsets[again] < offsets[marker]))
    is_ended = has_end & ~is_superseded
    end = marker[is_ended] - size
    is_commit = _numbers("control_type", ends)[end] == CONTROL_TYPE_COMMIT
    outcome[of_rows[is_superseded]] = _SUPERSEDED
    ended_by[of_rows[is_superseded]] = of_rows[again[is_superseded]]
    outcome[of_rows[is_ended]] = np.where(is_commit, _COMMITTED, _ABORTED)
    ended_by[of_rows[is_ended]] = count + of_markers[end]
    is_waiting[of_rows[~is_superseded & ~is_ended]] = True
    return Outcomes(outcome, ended_by, is_waiting)


def _ends(markers: pa.Table, semantics: Semantics) -> Mask:
    """Markers that end a transaction; the Scala loader takes all others for an ABORT."""
    if semantics is Semantics.SCALA:
        return np.ones(markers.num_rows, dtype=np.bool_)
    return np.isin(_numbers("control_type", markers), (CONTROL_TYPE_ABORT, CONTROL_TYPE_COMMIT))


def _producers(rows: pa.Table, markers: pa.Table) -> Integers:
    """An integer for each row and each marker, the same for a producer id in a log partition."""
    codes = np.zeros(rows.num_rows + markers.num_rows, dtype=np.int64)
    for name in ("log_partition", "producer_id"):
        different, numbers = np.unique(_numbers(name, rows, markers), return_inverse=True)
        codes = codes * len(different) + numbers
    return np.unique(codes, return_inverse=True)[1]


def _first_behind(producers: Integers, record_offsets: Integers, rows: int) -> Integers:
    """For each of so many rows the first of the markers behind it, or `_NOTHING`.

    Markers come behind the rows, and are numbered on.
    """
    _, places = np.unique(record_offsets, return_inverse=True)
    at = producers * (len(places) + 1) + places
    markers = rows + np.argsort(at[rows:], kind="stable")
    behind = np.searchsorted(at[markers], at[:rows], side="right")
    found = np.append(markers, _NOTHING)[behind]
    is_own = (found != _NOTHING) & (producers[found] == producers[:rows])
    return np.where(is_own, found, _NOTHING)


def _next_commit(codes: Integers, producers: Integers, record_offsets: Integers) -> Integers:
    """For each row the next one of its producer for the same key, or `_NOTHING`."""
    order = np.lexsort((record_offsets, producers, codes))
    one, other = order[:-1], order[1:]
    is_same = (codes[one] == codes[other]) & (producers[one] == producers[other])
    found = np.full(len(codes), _NOTHING, dtype=np.int64)
    found[one[is_same]] = other[is_same]
    return found


def _numbers(name: str, *tables: pa.Table) -> Integers:
    return np.concatenate([_one_array(table[name]).to_numpy() for table in tables]).astype(np.int64)


def _one_array(column: pa.ChunkedArray) -> Any:
    return column.combine_chunks()
