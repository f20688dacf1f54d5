"""The tables of current state at any moment after a base, rebuilt from the history.

A *base* is a copy of the tables at an earlier snapshot. The history after it is `offset_commits`,
with the outcome of each commit, and `group_records`.

**The moment.** A moment is a record offset of each log partition: that of the first record whose
timestamp is later. It cuts the log there, so records behind it are left out, whatever their
timestamps are. A log partition without a later record is read to its end.

**The rules** are those of the loader (`coordinator_state.replay.offsets`):

* A commit or tombstone takes effect at its `outcome_record_offset`: its own record offset, or that
  of the marker of its transaction.
* An effective tombstone removes everything of its key that took effect before it. Of the rest, the
  greatest record offset wins. Under `scala` semantics COMMIT may therefore bring a commit back that
  is older than the tombstone, and a transactional tombstone has no effect.
* A transactional commit is pending from its record offset to its `outcome_record_offset`.
* Groups are replayed record by record, from their state in the base.

**Many moments.** The tables of a rebuilt moment are again a base for later moments (`PastTables`).
Each moment begins at the closest one before it that is kept. So moments in order read each record
about once.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.collected import GroupId, distinct_groups, group_ids
from coordinator_state.apply.columns import (
    Integers,
    Mask,
    columns_of,
    distinct_keys,
    epoch_us,
    nullable,
    numbers,
    per_row,
    schema_of,
)
from coordinator_state.apply.group_rows import (
    MEMBER_STATE_COLUMNS,
    RAW_RECORD_COLUMNS,
    decoded_records,
    described_groups,
    group_rows,
    member_rows,
    restored_groups,
)
from coordinator_state.apply.groups import GroupChange
from coordinator_state.apply.merge import merged
from coordinator_state.apply.offsets import winners_of
from coordinator_state.apply.rows import (
    OFFSET_KEY,
    CommittedOffsetRow,
    GroupRow,
    MemberRow,
    PendingOffsetRow,
)
from coordinator_state.replay.group_replay import (
    GroupRecord,
    GroupReplay,
    GroupState,
    rebuilt_group,
)
from coordinator_state.replay.groups import NO_RECORD_OFFSET
from coordinator_state.replay.offsets import Outcome, Semantics
from coordinator_state.replay.releases import Release

_LAST: int = np.iinfo(np.int64).max
LOST = "lost"
_OFFSETS = schema_of(CommittedOffsetRow)
_PENDING = schema_of(PendingOffsetRow)
_GROUPS = schema_of(GroupRow)
_MEMBERS = schema_of(MemberRow)
PLACE = ["log_partition", "record_offset"]
_IDENTITY = ["log_partition", "group_id"]
_RAW_KEY: Final = ["log_partition", "raw_key"]
_MOST_ROWS: Final = 1_000_000
"""Rebuilt tables with at most this many rows are kept, the last used ones first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTables:
    """The tables of current state at one record offset of each log partition.

    `next_offsets` has these record offsets; all earlier records are applied.
    """

    group_offsets: pa.Table
    pending_offsets: pa.Table
    groups: pa.Table
    group_members: pa.Table
    coordinator_records: pa.Table
    next_offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryAfter:
    """The history after a base, with at least all rows up to the rebuilt moment.

    Attributes:
        commits: rows of `offset_commits`, also of commits that were pending in the base.
        group_records: rows of `group_records`.
        pending: the newest rows of `pending_offsets`.
    """

    commits: pa.Table
    group_records: pa.Table
    pending: pa.Table

    def timestamps(self) -> tuple[tuple[pa.Table, str, str], ...]:
        """The rows with a time: with the columns of their record offset and of its time."""
        return (
            (self.commits, "record_offset", "record_timestamp"),
            (self.commits, "outcome_record_offset", "outcome_timestamp"),
            (self.group_records, "record_offset", "record_timestamp"),
            (self.pending, "record_offset", "record_timestamp"),
        )

    def ends(self, base: Mapping[int, int]) -> dict[int, int]:
        """For each log partition, the record offset after its last known record."""
        next_offsets = dict(base)
        for rows, offset, _ in self.timestamps():
            lasts = rows.group_by("log_partition").aggregate([(offset, "max")]).to_pylist()
            for row in lasts:
                log_partition, last = row["log_partition"], row[f"{offset}_max"]
                next_offsets[log_partition] = max(next_offsets.get(log_partition, 0), last + 1)
        return next_offsets

    def of(self, span: Span) -> HistoryAfter:
        """The rows that matter to tables between two record offsets of each log partition."""
        commits = self.commits
        is_later = numbers(commits["outcome_record_offset"]) >= per_row(commits, span.since)
        records = self.group_records
        return HistoryAfter(
            commits=commits.filter(pa.array(is_later & ~span.after(commits, "record_offset"))),
            group_records=records.filter(pa.array(span.of(records, "record_offset"))),
            pending=self.pending,
        )


class Timeline:
    """The tables at any moment after a base.

    Args:
        base: the tables at an earlier snapshot.
        history: the history after the base, up to the last moment.
        semantics: the loader's rules.
        release: the rules of group records under `coordinator` semantics.
        topic_names: the known topic names by topic id.
    """

    def __init__(
        self,
        base: PastTables,
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
        self._cuts = _cuts(history, base.next_offsets)
        self._kept: OrderedDict[datetime, PastTables] = OrderedDict()

    def at(self, moment: datetime) -> PastTables:
        """The tables at a moment; their `next_offsets` are after the last record before it."""
        earlier = max((kept for kept in self._kept if kept <= moment), default=None)
        if earlier is not None:
            self._kept.move_to_end(earlier)
            if earlier == moment:
                return self._kept[moment]
        base = self._base if earlier is None else self._kept[earlier]
        tables = self._advanced(base, {**self._ends, **self._cuts_at(moment)})
        self._kept[moment] = tables
        while len(self._kept) > 1 and sum(map(_row_count, self._kept.values())) > _MOST_ROWS:
            self._kept.popitem(last=False)
        return tables

    def _cuts_at(self, moment: datetime) -> dict[int, int]:
        """For each log partition, the record offset of its first record after a moment."""
        moment_us = epoch_us(moment)
        cuts = {}
        for log_partition, (times_us, least) in self._cuts.items():
            first = int(np.searchsorted(times_us, moment_us, side="right"))
            if first < least.size:
                cuts[log_partition] = int(least[first])
        return cuts

    def _advanced(self, base: PastTables, until: Mapping[int, int]) -> PastTables:
        """The tables at later record offsets."""
        span = Span(base.next_offsets, until)
        history = self._history.of(span)
        advance = _Advance(base, history, span, self._semantics, self._release)
        offsets, pending = advance.offsets(), advance.pending()
        groups, members = base.groups, base.group_members
        if changes := advance.group_changes(offsets, pending):
            described = described_groups(changes, self._topic_names)
            rows = columns_of(group_rows(changes, described), nullable(_GROUPS))
            groups = pa.concat_tables(
                [_except(groups, changes), _only(rows, described).cast(_GROUPS)]
            )
            rows = columns_of(member_rows(changes, described, {}), _MEMBERS)
            members = pa.concat_tables([_except(members, changes), rows])
        return PastTables(
            group_offsets=offsets,
            pending_offsets=pending,
            groups=groups,
            group_members=members,
            coordinator_records=merged(
                base.coordinator_records.select(RAW_RECORD_COLUMNS),
                _newest_of_each_key(history.group_records.select(RAW_RECORD_COLUMNS)),
                key=_RAW_KEY,
                guard="record_offset",
                deletes=None,
            ),
            next_offsets=until,
        )


def _row_count(tables: PastTables) -> int:
    return int(tables.group_offsets.num_rows + tables.groups.num_rows)


def _newest_of_each_key(records: pa.Table) -> pa.Table:
    numbered = records.sort_by("record_offset")
    numbered = numbered.append_column("row", pa.array(np.arange(numbered.num_rows)))
    last = numbered.group_by(_RAW_KEY).aggregate([("row", "max")])["row_max"]
    return numbered.drop_columns("row").take(last)


def _cuts(
    history: HistoryAfter, next_offsets: Mapping[int, int]
) -> Mapping[int, tuple[Integers, Integers]]:
    """The cuts of all moments after a base.

    By log partition, the times of records in order, and for each the least record offset from it
    on.
    """
    sources = []
    for rows, offset, timestamp in history.timestamps():
        known = rows.select(["log_partition", offset, timestamp])
        known = known.filter(pc.is_valid(known[timestamp]))
        times_us = pc.cast(known[timestamp], pa.int64())
        sources.append(
            [column.to_numpy() for column in (known["log_partition"], known[offset], times_us)]
        )
    log_partitions, offsets, times_us = (
        np.concatenate(columns).astype(np.int64) for columns in zip(*sources, strict=True)
    )
    cuts = {}
    for log_partition in np.unique(log_partitions).tolist():
        mask = log_partitions == log_partition
        mask &= offsets >= next_offsets.get(log_partition, 0)
        order = np.argsort(times_us[mask], kind="stable")
        least = np.minimum.accumulate(offsets[mask][order][::-1])[::-1]
        cuts[log_partition] = times_us[mask][order], least
    return cuts


@dataclass(frozen=True, slots=True)
class Span:
    """The record offsets of each log partition after a base and before a cut."""

    since: Mapping[int, int]
    until: Mapping[int, int]

    def of(self, rows: pa.Table, offset: str) -> Mask:
        """The rows whose record offset, in this column, is in the span."""
        offsets = numbers(rows[offset])
        mask: Mask = (offsets >= per_row(rows, self.since)) & ~self.after(rows, offset)
        return mask

    def after(self, rows: pa.Table, offset: str) -> Mask:
        """The rows whose record offset, in this column, is after the span."""
        mask: Mask = numbers(rows[offset]) >= per_row(rows, self.until, _LAST)
        return mask


@dataclass(frozen=True, slots=True)
class _Advance:
    """The changes between two record offsets of each log partition.

    Attributes:
        base: the tables at the first record offsets.
        history: the history that matters in the span.
        span: the record offsets.
        semantics: the loader's rules.
        release: the rules of group records under `coordinator` semantics.
    """

    base: PastTables
    history: HistoryAfter
    span: Span
    semantics: Semantics
    release: Release

    def offsets(self) -> pa.Table:
        """The rows of `group_offsets` after the span."""
        commits, before = self.history.commits, self.base.group_offsets
        is_plain = pc.is_null(commits["producer_id"])
        # A lost transactional commit was committed or aborted; plain ones and tombstones took
        # effect.
        is_effective = pc.or_(
            pc.equal(commits["outcome"], Outcome.COMMITTED.value),
            pc.and_(pc.equal(commits["outcome"], LOST), pc.or_(is_plain, commits["is_tombstone"])),
        )
        if self.semantics is Semantics.SCALA:
            takes_effect = pc.or_(is_plain, pc.invert(commits["is_tombstone"]))
            is_effective = pc.and_(is_effective, takes_effect)
        is_in_span = pa.array(self.span.of(commits, "outcome_record_offset"))
        effective = commits.filter(pc.and_(is_effective, is_in_span))
        if not effective.num_rows:
            return before
        names, count = list(OFFSET_KEY), before.num_rows
        rows = pa.concat_tables(
            [table.select([*names, "record_offset"]) for table in (before, effective)]
        )
        record_offsets = numbers(rows["record_offset"])
        # A stored offset took effect before all that did in the span.
        effects = np.append(record_offsets[:count], numbers(effective["outcome_record_offset"]))
        is_tombstone = np.append(np.zeros(count, np.bool_), numbers(effective["is_tombstone"]))
        key_ids = distinct_keys(rows.select(names))
        winners, _ = winners_of(key_ids, record_offsets, effects, is_tombstone)
        winners = winners[~is_tombstone[winners]]
        unchanged = before.take(pa.array(winners[winners < count]))
        changed = effective.take(pa.array(winners[winners >= count] - count))
        return pa.concat_tables([unchanged, columns_of(changed, _OFFSETS)])

    def pending(self) -> pa.Table:
        """The rows of `pending_offsets` after the span."""
        commits, before, newest = (
            self.history.commits,
            self.base.pending_offsets,
            self.history.pending,
        )
        if not before.num_rows and not newest.num_rows:
            commits = commits.filter(pc.is_valid(commits["producer_id"]))
            if not commits.num_rows:
                return _PENDING.empty_table()
        is_resolved = ~self.span.after(commits, "outcome_record_offset")
        resolved = commits.select(PLACE).filter(pa.array(is_resolved))
        is_open = pc.and_(pc.is_valid(commits["producer_id"]), pc.invert(commits["is_tombstone"]))
        is_in_span = self.span.of(commits, "record_offset")
        is_open = pc.and_(is_open, pa.array(is_in_span & ~is_resolved))
        newest = newest.filter(pa.array(self.span.of(newest, "record_offset")))
        return pa.concat_tables(
            [
                before.join(resolved, PLACE, join_type="left anti")
                .select(_PENDING.names)
                .cast(_PENDING),
                columns_of(commits.filter(is_open), _PENDING),
                columns_of(newest, _PENDING),
            ]
        )

    def group_changes(self, offsets: pa.Table, pending: pa.Table) -> dict[GroupId, GroupChange]:
        """The groups that may differ from the base; None if they do not exist.

        `offsets` and `pending` are the rows after the span.
        """
        rows = self.history.group_records.select(RAW_RECORD_COLUMNS)
        after = (
            self._scala_groups(rows, offsets, pending)
            if self.semantics is Semantics.SCALA
            else self._coordinator_groups(rows)
        )
        return {
            group: GroupChange(group=state, guard_offset=NO_RECORD_OFFSET)
            for group, state in after.items()
        }

    def _coordinator_groups(self, rows: pa.Table) -> dict[GroupId, GroupState | None]:
        """Groups with records after the base, and groups that a commit created."""
        base, commits = self.base, self._commits()
        created = distinct_groups(_except(commits, dict.fromkeys(group_ids(base.groups))))
        wanted = distinct_groups(rows) | created
        if not wanted:
            return {}
        before = restored_groups(
            _only(base.groups, wanted),
            _only(base.group_members, wanted).select(MEMBER_STATE_COLUMNS),
            _only(base.coordinator_records, wanted).select(RAW_RECORD_COLUMNS),
            self.release,
        )
        records = decoded_records(wanted, rows)
        committed = _record_offsets_by_group(_only(commits, wanted))
        states: dict[GroupId, GroupState | None] = {}
        for group in wanted:
            known = before.get(group)
            replay = GroupReplay({} if known is None else {group[1]: known}, self.release)
            replay.replay_in_order(group[1], committed[group], records[group])
            states[group] = replay.states.get(group[1])
        return states

    def _scala_groups(
        self, rows: pa.Table, offsets: pa.Table, pending: pa.Table
    ) -> dict[GroupId, GroupState | None]:
        """Groups with records after the base, and all groups that exist only by their offsets."""
        base = self.base
        is_simple = pc.equal(base.groups["record_offset"], NO_RECORD_OFFSET)
        simple = distinct_groups(base.groups.filter(is_simple))
        known = distinct_groups(base.groups) - simple
        committed, open_ = _record_offsets_by_group(offsets), _record_offsets_by_group(pending)
        wanted = distinct_groups(rows) | simple | ((committed.keys() | open_.keys()) - known)
        stored = _only(base.coordinator_records, wanted).select(RAW_RECORD_COLUMNS)
        records = decoded_records(wanted, pa.concat_tables([stored, rows]))
        return {
            group: rebuilt_group(
                group[1],
                _last_of_each_key(records[group]),
                Semantics.SCALA,
                committed=committed.get(group, ()),
                pending=open_.get(group, ()),
                was_simple=group in simple,
            )
            for group in wanted
        }

    def _commits(self) -> pa.Table:
        """The commits in the span, whatever their outcome."""
        columns, commits = ["group_id", *PLACE], self.history.commits
        rows = commits.filter(pc.invert(commits["is_tombstone"])).select(columns)
        rows = pa.concat_tables([rows, self.history.pending.select(columns)])
        return rows.filter(pa.array(self.span.of(rows, "record_offset")))


def _last_of_each_key(records: list[GroupRecord]) -> list[GroupRecord]:
    last = {
        (record.record_type, record.name): record
        for record in sorted(records, key=lambda record: record.record_offset)
    }
    return sorted(last.values(), key=lambda record: record.record_offset)


def _record_offsets_by_group(rows: pa.Table) -> dict[GroupId, list[int]]:
    offsets_by_group: dict[GroupId, list[int]] = defaultdict(list)
    for group, record_offset in zip(
        group_ids(rows), rows["record_offset"].to_pylist(), strict=True
    ):
        offsets_by_group[group].append(record_offset)
    return offsets_by_group


def _only(rows: pa.Table, groups: Collection[GroupId]) -> pa.Table:
    """The rows of these groups."""
    return rows.filter(pa.array(_is_of(rows, groups)))


def _except(rows: pa.Table, groups: Mapping[GroupId, object]) -> pa.Table:
    """The rows of all other groups."""
    return rows.filter(pa.array(~_is_of(rows, groups)))


def _is_of(rows: pa.Table, groups: Any) -> Mask:
    """Whether each row is of one of the groups."""
    mask = np.zeros(rows.num_rows, np.bool_)
    ids = pa.array(sorted({group_id for _, group_id in groups}), pa.string())
    candidates = np.flatnonzero(numbers(pc.is_in(rows["group_id"], ids)))
    if len(candidates):
        some = rows.select(_IDENTITY).take(pa.array(candidates))
        mask[candidates] = [group in groups for group in group_ids(some)]
    return mask
