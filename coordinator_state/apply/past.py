"""Rebuilds the tables at an earlier record offset from a base and the history after it.

A *base* is a copy of the tables at an earlier snapshot. The history after it is `offset_commits`,
with the outcome of each commit, and `group_records`. The rules are those of the loader
(`coordinator_state.replay.offsets`):

* A commit or tombstone takes effect at its `outcome_record_offset`: its own record offset, or that
  of the marker of its transaction.
* An effective tombstone removes everything of its key that took effect before it. Of the rest, the
  greatest record offset wins. Under `scala` semantics COMMIT may therefore bring a commit back that
  is older than the tombstone, and a transactional tombstone has no effect.
* A transactional commit is pending from its record offset to its `outcome_record_offset`.
* Groups are replayed record by record, from their state in the base.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.collected import GroupId, distinct_groups, group_ids
from coordinator_state.apply.columns import (
    columns_of,
    distinct_keys,
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
from coordinator_state.apply.rows import (
    OFFSET_KEY,
    CommittedOffsetRow,
    GroupRow,
    MemberRow,
    PendingOffsetRow,
)
from coordinator_state.replay.group_replay import GroupRecord, GroupReplay, GroupState
from coordinator_state.replay.group_replay import rebuilt_group as rebuilt_from_records
from coordinator_state.replay.groups import NO_RECORD_OFFSET
from coordinator_state.replay.offsets import Outcome, Semantics
from coordinator_state.replay.releases import Release

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LAST: int = np.iinfo(np.int64).max
_BEFORE_ALL = -1
_NO_TOMBSTONE = -2
LOST = "lost"
_OFFSETS = schema_of(CommittedOffsetRow)
_PENDING = schema_of(PendingOffsetRow)
_GROUPS = schema_of(GroupRow)
_MEMBERS = schema_of(MemberRow)
PLACE = ["log_partition", "record_offset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTables:
    """The tables of current state, as they were at one record offset of each log partition."""

    group_offsets: pa.Table
    pending_offsets: pa.Table
    groups: pa.Table
    group_members: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Base(PastTables):
    """A copy of the tables; `next_offsets` has the record offset of each log partition."""

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


def cut_at(base: Base, history: HistoryAfter, moment: datetime) -> dict[int, int]:
    """For each log partition, the record offset of its first record after a moment.

    Log partitions without a record after the moment are left out.
    """
    cut: dict[int, int] = {}
    for rows, offset, timestamp in history.timestamps():
        later = rows.select(["log_partition", offset]).filter(pc.greater(rows[timestamp], moment))
        is_new = numbers(later[offset]) >= per_row(later, base.next_offsets)
        later = later.filter(pa.array(is_new))
        firsts = later.group_by("log_partition").aggregate([(offset, "min")]).to_pylist()
        for row in firsts:
            log_partition, first = row["log_partition"], row[f"{offset}_min"]
            cut[log_partition] = min(cut.get(log_partition, _LAST), first)
    return cut


def rebuilt(
    base: Base,
    history: HistoryAfter,
    cut: Mapping[int, int],
    semantics: Semantics,
    release: Release,
    topic_names: Mapping[str, str],
) -> PastTables:
    """Rebuild the tables at a record offset of each log partition.

    Args:
        base: the tables at an earlier snapshot.
        history: the history after the base.
        cut: the first record offset, by log partition, that is not applied; by default all are.
        semantics: the loader's rules.
        release: the rules of group records under `coordinator` semantics.
        topic_names: the known topic names by topic id.
    """
    span = Span(base.next_offsets, cut)
    offsets = _offsets(base, history, span, semantics)
    pending = _pending(base, history, span)
    changes = _group_changes(base, history, span, offsets, pending, semantics, release)
    if not changes:
        return PastTables(
            group_offsets=offsets,
            pending_offsets=pending,
            groups=base.groups,
            group_members=base.group_members,
        )
    described = described_groups(changes, topic_names)
    groups = columns_of(group_rows(changes, described), nullable(_GROUPS))
    members = member_rows(changes, described, {})
    return PastTables(
        group_offsets=offsets,
        pending_offsets=pending,
        groups=pa.concat_tables(
            [_except(base.groups, changes), _only(groups, described).cast(_GROUPS)]
        ),
        group_members=pa.concat_tables(
            [_except(base.group_members, changes), columns_of(members, _MEMBERS)]
        ),
    )


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


def _offsets(base: Base, history: HistoryAfter, span: Span, semantics: Semantics) -> pa.Table:
    commits = history.commits
    is_plain = pc.is_null(commits["producer_id"])
    # A lost transactional commit was committed or aborted; plain ones and tombstones took effect.
    is_effective = pc.or_(
        pc.equal(commits["outcome"], Outcome.COMMITTED.value),
        pc.and_(pc.equal(commits["outcome"], LOST), pc.or_(is_plain, commits["is_tombstone"])),
    )
    if semantics is Semantics.SCALA:
        is_effective = pc.and_(is_effective, pc.or_(is_plain, pc.invert(commits["is_tombstone"])))
    effective = commits.filter(
        pc.and_(is_effective, pa.array(span.of(commits, "outcome_record_offset")))
    )
    if not effective.num_rows:
        return base.group_offsets
    names = list(OFFSET_KEY)
    ids = distinct_keys(
        pa.concat_tables([base.group_offsets.select(names), effective.select(names)])
    )
    count = base.group_offsets.num_rows
    effects = np.full(len(ids), _BEFORE_ALL, np.int64)
    effects[count:] = numbers(effective["outcome_record_offset"])
    is_tombstone = np.zeros(len(ids), np.bool_)
    is_tombstone[count:] = numbers(effective["is_tombstone"])
    last_tombstone = np.full(int(ids.max()) + 1, _NO_TOMBSTONE, np.int64)
    np.maximum.at(last_tombstone, ids[is_tombstone], effects[is_tombstone])
    remaining = np.flatnonzero(~is_tombstone & (effects > last_tombstone[ids]))
    record_offsets = np.concatenate(
        [numbers(base.group_offsets["record_offset"]), numbers(effective["record_offset"])]
    )
    order = remaining[np.lexsort((record_offsets[remaining], ids[remaining]))]
    winners = order[np.append(ids[order[1:]] != ids[order[:-1]], True)] if len(order) else order
    of_base = base.group_offsets.take(pa.array(winners[winners < count]))
    of_history = effective.take(pa.array(winners[winners >= count] - count))
    return pa.concat_tables([of_base, columns_of(of_history, _OFFSETS)])


def _pending(base: Base, history: HistoryAfter, span: Span) -> pa.Table:
    commits = history.commits
    if not base.pending_offsets.num_rows and not history.pending.num_rows:
        commits = commits.filter(pc.is_valid(commits["producer_id"]))
        if not commits.num_rows:
            return _PENDING.empty_table()
    is_resolved = ~span.after(commits, "outcome_record_offset")
    resolved = commits.select(PLACE).filter(pa.array(is_resolved))
    is_open = pc.and_(pc.is_valid(commits["producer_id"]), pc.invert(commits["is_tombstone"]))
    is_open = pc.and_(is_open, pa.array(span.of(commits, "record_offset") & ~is_resolved))
    newest = history.pending.filter(pa.array(span.of(history.pending, "record_offset")))
    return pa.concat_tables(
        [
            base.pending_offsets.join(resolved, PLACE, join_type="left anti")
            .select(_PENDING.names)
            .cast(_PENDING),
            columns_of(commits.filter(is_open), _PENDING),
            columns_of(newest, _PENDING),
        ]
    )


def _group_changes(
    base: Base,
    history: HistoryAfter,
    span: Span,
    offsets: pa.Table,
    pending: pa.Table,
    semantics: Semantics,
    release: Release,
) -> dict[GroupId, GroupChange]:
    """The groups that may differ from the base; None if they do not exist."""
    rows = history.group_records
    rows = rows.filter(pa.array(span.of(rows, "record_offset"))).select(RAW_RECORD_COLUMNS)
    touched = distinct_groups(rows)
    if semantics is Semantics.SCALA:
        after = _scala_groups(base, rows, touched, offsets, pending)
    else:
        after = _coordinator_groups(base, rows, touched, _commits(history, span), release)
    return {
        group: GroupChange(group=state, guard_offset=NO_RECORD_OFFSET)
        for group, state in after.items()
    }


def _coordinator_groups(
    base: Base, rows: pa.Table, touched: set[GroupId], commits: pa.Table, release: Release
) -> dict[GroupId, GroupState | None]:
    """Groups with records after the base, and groups that a commit created."""
    created = distinct_groups(_except(commits, dict.fromkeys(group_ids(base.groups))))
    wanted = touched | created
    if not wanted:
        return {}
    before = restored_groups(
        _only(base.groups, wanted),
        _only(base.group_members, wanted).select(MEMBER_STATE_COLUMNS),
        _only(base.coordinator_records, wanted).select(RAW_RECORD_COLUMNS),
        release,
    )
    records = decoded_records(wanted, rows)
    committed_at: dict[GroupId, list[int]] = defaultdict(list)
    of_wanted = _only(commits, wanted)
    for group, record_offset in zip(
        group_ids(of_wanted), of_wanted["record_offset"].to_pylist(), strict=True
    ):
        committed_at[group].append(record_offset)
    states: dict[GroupId, GroupState | None] = {}
    for group in wanted:
        known = before.get(group)
        replay = GroupReplay({} if known is None else {group[1]: known}, release)
        replay.replay_in_order(group[1], committed_at[group], records[group])
        states[group] = replay.states.get(group[1])
    return states


def _scala_groups(
    base: Base, rows: pa.Table, touched: set[GroupId], offsets: pa.Table, pending: pa.Table
) -> dict[GroupId, GroupState | None]:
    """Groups with records after the base, and all groups that exist only by their offsets."""
    is_simple = pc.equal(base.groups["record_offset"], NO_RECORD_OFFSET)
    simple = distinct_groups(base.groups.filter(is_simple))
    known = distinct_groups(base.groups) - simple
    committed, open_ = _places_by_group(offsets), _places_by_group(pending)
    wanted = touched | simple | ((committed.keys() | open_.keys()) - known)
    records = decoded_records(
        wanted,
        pa.concat_tables(
            [_only(base.coordinator_records, wanted).select(RAW_RECORD_COLUMNS), rows]
        ),
    )
    return {
        group: rebuilt_from_records(
            group[1],
            _last_of_each_key(records[group]),
            Semantics.SCALA,
            committed=committed.get(group, ()),
            pending=open_.get(group, ()),
            was_simple=group in simple,
        )
        for group in wanted
    }


def _last_of_each_key(records: list[GroupRecord]) -> list[GroupRecord]:
    last = {
        (record.record_type, record.name): record
        for record in sorted(records, key=lambda record: record.record_offset)
    }
    return sorted(last.values(), key=lambda record: record.record_offset)


def _commits(history: HistoryAfter, span: Span) -> pa.Table:
    """The commits in a span, whatever their outcome."""
    columns = ["group_id", *PLACE]
    commits = history.commits.filter(pc.invert(history.commits["is_tombstone"])).select(columns)
    rows = pa.concat_tables([commits, history.pending.select(columns)])
    return rows.filter(pa.array(span.of(rows, "record_offset")))


def _places_by_group(rows: pa.Table) -> dict[GroupId, list[int]]:
    offsets_by_group: dict[GroupId, list[int]] = defaultdict(list)
    for group, record_offset in zip(
        group_ids(rows), rows["record_offset"].to_pylist(), strict=True
    ):
        offsets_by_group[group].append(record_offset)
    return offsets_by_group


_IDENTITY = ["log_partition", "group_id"]


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
