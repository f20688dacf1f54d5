"""Rebuilds the tables at many moments after a base, each from the closest one before it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import epoch_us
from coordinator_state.apply.group_rows import RAW_RECORD_COLUMNS
from coordinator_state.apply.merge import merged
from coordinator_state.apply.past import Base, HistoryAfter, Int64s, Span, rebuilt
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import Release

_MOST_ROWS: Final = 1_000_000
"""Rebuilt tables with at most this many rows are kept, the last used ones first."""
_RAW_KEY: Final = ["log_partition", "raw_key"]


class Timeline:
    """The tables at any moment after a base.

    A rebuilt moment is a base for later ones, so moments in order read each record about once.

    Args:
        base: the tables at an earlier snapshot.
        history: the history after the base, up to the last moment.
        semantics: the loader's rules.
        release: the rules of group records under `coordinator` semantics.
        topic_names: the known topic names by topic id.
    """

    def __init__(
        self,
        base: Base,
        history: HistoryAfter,
        semantics: Semantics,
        release: Release,
        topic_names: Mapping[str, str],
    ) -> None:
        self._base = base
        self._history = history
        self._semantics = semantics
        self._release = release
        self._topic_names = topic_names
        self._ends = history.ends(base.next_offsets)
        self._cuts = _Cuts.of(base, history)
        self._kept: OrderedDict[datetime, Base] = OrderedDict()

    def at(self, moment: datetime) -> Base:
        """The tables at a moment; their `next_offsets` are after the last record before it."""
        earlier = max((kept for kept in self._kept if kept <= moment), default=None)
        if earlier is not None:
            self._kept.move_to_end(earlier)
            if earlier == moment:
                return self._kept[moment]
        base = self._base if earlier is None else self._kept[earlier]
        cut = self._cuts.at(moment)
        tables = self._advanced(base, {**self._ends, **cut})
        self._kept[moment] = tables
        while len(self._kept) > 1 and sum(map(_rows, self._kept.values())) > _MOST_ROWS:
            self._kept.popitem(last=False)
        return tables

    def _advanced(self, base: Base, until: Mapping[int, int]) -> Base:
        """The tables at later record offsets."""
        span = Span(base.next_offsets, until)
        history = self._history.of(span)
        tables = rebuilt(base, history, until, self._semantics, self._release, self._topic_names)
        return Base(
            group_offsets=tables.group_offsets,
            pending_offsets=tables.pending_offsets,
            groups=tables.groups,
            group_members=tables.group_members,
            coordinator_records=merged(
                base.coordinator_records.select(RAW_RECORD_COLUMNS),
                _newest_of_each_key(history.group_records.select(RAW_RECORD_COLUMNS)),
                key=_RAW_KEY,
                guard="record_offset",
                deletes=None,
            ),
            next_offsets=until,
        )


def _rows(base: Base) -> int:
    return int(base.group_offsets.num_rows + base.groups.num_rows)


def _newest_of_each_key(records: pa.Table) -> pa.Table:
    numbered = records.sort_by("record_offset")
    numbered = numbered.append_column("row", pa.array(np.arange(numbered.num_rows)))
    last = numbered.group_by(_RAW_KEY).aggregate([("row", "max")])["row_max"]
    return numbered.drop_columns("row").take(last)


@dataclass(frozen=True, slots=True)
class _Cuts:
    """`cut_at` for many moments.

    By log partition, the times of records in order, and for each the least record offset from it
    on.
    """

    times_by_log_partition: Mapping[int, tuple[Int64s, Int64s]]

    @classmethod
    def of(cls, base: Base, history: HistoryAfter) -> _Cuts:
        sources = []
        for rows, offset, timestamp in history.timestamps():
            known = rows.select(["log_partition", offset, timestamp])
            known = known.filter(pc.is_valid(known[timestamp]))
            sources.append(
                [
                    known["log_partition"].to_numpy(),
                    known[offset].to_numpy(),
                    pc.cast(known[timestamp], pa.int64()).to_numpy(),
                ]
            )
        log_partitions, offsets, times_us = (
            np.concatenate(columns).astype(np.int64) for columns in zip(*sources, strict=True)
        )
        times_by_log_partition = {}
        for log_partition in np.unique(log_partitions).tolist():
            mask = log_partitions == log_partition
            mask &= offsets >= base.next_offsets.get(log_partition, 0)
            order = np.argsort(times_us[mask], kind="stable")
            least = np.minimum.accumulate(offsets[mask][order][::-1])[::-1]
            times_by_log_partition[log_partition] = times_us[mask][order], least
        return cls(times_by_log_partition)

    def at(self, moment: datetime) -> dict[int, int]:
        """For each log partition, the record offset of its first record after a moment."""
        moment_us = epoch_us(moment)
        cut = {}
        for log_partition, (times_us, least) in self.times_by_log_partition.items():
            first = int(np.searchsorted(times_us, moment_us, side="right"))
            if first < least.size:
                cut[log_partition] = int(least[first])
        return cut
