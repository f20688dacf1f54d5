"""Partitions that a group reads without a committed offset, and their unread records.

A group reads all partitions of the topics that its members subscribe to or have assigned. A group
without members reads the topics of its committed offsets. All records of a partition are unread if
the group was there before the partition, as after an expansion of the topic, or if the log was
empty when the members came, or when a group without members last committed. Otherwise the records
count that arrived since the members were there. Where they began to read is not known, so this
number is a lower bound.

Only partitions with an offset sample have such rows. Share groups have them where their coordinator
has the state of the share partition, but no start offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import NOWHERE, TIMESTAMP, nullable, positions
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.lag import UNKNOWN, Bools, Int64s, LogHistories
from coordinator_state.replay.groups import SHARE
from coordinator_state.replay.offsets import Outcome
from streaming.lag.last_writes import newest_sample
from streaming.lag.offset_samples import Logs, to_ms
from streaming.lag.recent_commits import KEY
from streaming.lag.sample_runs import MAX_SAMPLE_AGE
from streaming.tables.clock import moment_ms
from streaming.tables.delta import is_too_large
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_EVENTS, LOG_OFFSETS, OFFSET_COMMITS

_WINDOWS: Final = (timedelta(minutes=10), timedelta(hours=6), timedelta(days=7))
"""The beginning is looked for in longer and longer times."""
_LOG: Final = ["topic", "partition"]
_PLACE: Final = ["log_partition", *KEY]
UNCOMMITTED: Final = pa.schema(
    [
        *(("log_partition", pa.int32()), ("group_id", pa.string())),
        *(("topic", pa.string()), ("partition", pa.int32())),
        ("uncommitted_since", TIMESTAMP),
        ("unread_from", pa.int64()),
        ("is_lag_lower_bound", pa.bool_()),
        ("is_recreated", pa.bool_()),
    ]
)
"""`uncommitted_since` is the time since which the group reads the partition without a committed
offset, and `unread_from` the log end at that time; `UNKNOWN` if no sample has it. Earlier records
may be unread, too, if `is_lag_lower_bound`. `is_recreated` says that the topic was created again at
that time."""
_DELETIONS: Final = (EventName.OFFSET_DELETED.value, EventName.OFFSET_EXPIRED.value)
_EVENTS: Final = (
    *(EventName.ASSIGNMENT_CHANGED.value, EventName.GROUP_EMPTIED.value),
    *(EventName.GROUP_DELETED.value, *_DELETIONS),
)
_ASSIGNMENT_TYPES: Final = (2, 8, 14, 22)
"""Records whose change is a change of assignments: GroupMetadata, CurrentMemberAssignment."""

_SMALL_PART: Final = 10
"""A group that has committed less than this part of a topic reads a part of it."""
_TOPIC: Final = ["log_partition", "group_id", "topic"]
_MS: Final = pa.timestamp("ms", "UTC")
_KNOWN: Final = nullable(
    pa.schema(
        [
            *(UNCOMMITTED.field(name) for name in KEY),
            *(("has_members", pa.bool_()), ("reads_since_ms", pa.int64())),
            *(("topic_id", pa.string()), ("since_ms", pa.int64()), ("unread_from", pa.int64())),
            *(("is_lower_bound", pa.bool_()), ("is_recreated", pa.bool_())),
        ]
    )
)


class _Beginnings(NamedTuple):
    """Where groups began to read partitions; `since_ms` is `UNKNOWN` where one does not read it."""

    since_ms: Int64s
    unread_from: Int64s
    is_lower_bound: Bools
    is_recreated: Bools

    def put(self, numbers: Int64s, others: _Beginnings) -> None:
        """Replace those with these numbers."""
        for column, values in zip(self, others, strict=True):
            column[numbers] = values

    def only(self, wanted: Bools) -> _Beginnings:
        """The selected ones."""
        return _Beginnings(
            self.since_ms[wanted],
            self.unread_from[wanted],
            self.is_lower_bound[wanted],
            self.is_recreated[wanted],
        )


@dataclass(slots=True)
class KnownBeginnings:
    """The beginnings that were found last, so that the next evaluation need not look for them.

    Each row (`_KNOWN`) has a key, what its beginning depends on (see `_beginnings`, and the topic
    id of the log), and the beginning.
    """

    rows: pa.Table = field(default_factory=_KNOWN.empty_table)


def uncommitted_partitions(
    reader: TableReader,
    now: datetime,
    groups: pa.Table,
    committed: pa.Table,
    assigned: pa.Table,
    known: KnownBeginnings,
) -> pa.Table:
    """The partitions (`UNCOMMITTED`) that groups read without a committed offset.

    Args:
        reader: the snapshot.
        now: the time up to which samples count.
        groups: `log_partition`, `group_id`, `group_type`, `protocol_type`, `member_count` and
            `subscribed_topics` of the groups.
        committed: `log_partition`, `KEY`, `committed_offset` and `commit_timestamp`. The offset of
            a share partition without a start offset is negative.
        assigned: the `owners` of partitions.
        known: what an earlier evaluation has found; what this one finds replaces it.
    """
    sampled = _sampled(reader, now)
    topics = _read_topics(groups, committed, assigned)
    places = _places(topics, committed, assigned, sampled)
    no_start = committed.filter(pc.less(committed["committed_offset"], 0)).select(_PLACE)
    if no_start.num_rows:
        is_assigned = positions(no_start.select(KEY), assigned.select(KEY)) != NOWHERE
        places = pa.concat_tables([places, no_start.filter(pa.array(is_assigned))])
    if not places.num_rows:
        known.rows = _KNOWN.empty_table()
        return UNCOMMITTED.empty_table()
    places = places.combine_chunks()
    with_members = groups.filter(pc.greater(groups["member_count"], 0))["group_id"]
    has_members = pc.is_in(places["group_id"], with_members.combine_chunks()).to_numpy()
    group_ids = pc.unique(places["group_id"].filter(pa.array(has_members))).to_pylist()
    since_ms = _last_commit_ms(reader, places, committed)
    if group_ids:
        members_since_ms = _members_since_ms(reader, now, places, group_ids)
        since_ms = np.where(has_members, members_since_ms, since_ms)
    beginnings = _beginnings(reader, now, places, has_members, since_ms, committed, sampled, known)
    since, *others = map(pa.array, beginnings)
    columns = [*places.columns, since.cast(_MS).cast(TIMESTAMP), *others]
    is_read = pa.array(beginnings.since_ms != UNKNOWN)
    return pa.table(columns, schema=UNCOMMITTED).filter(is_read)


def _sampled(reader: TableReader, now: datetime) -> pa.Table:
    """The topic and the number of each partition that was sampled last."""
    newest = newest_sample(reader, now)
    if newest is None:
        return nullable(LOG_OFFSETS.schema).empty_table().select(_LOG)
    since = newest - MAX_SAMPLE_AGE
    during: list[tuple[str, str, Any]] = [
        *(("day", ">=", since.date()), ("day", "<=", newest.date())),
        *(("sampled_at", ">=", since), ("sampled_at", "<=", newest)),
    ]
    topics, partitions = Logs.of(reader.read(LOG_OFFSETS.name, _LOG, during).select(_LOG)).keys
    return pa.table([topics, partitions], names=_LOG)


def _read_topics(groups: pa.Table, committed: pa.Table, assigned: pa.Table) -> pa.Table:
    """`_TOPIC` of each topic that a group reads, apart from share groups."""
    groups = groups.filter(pc.not_equal(groups["group_type"], SHARE))
    has_members = pc.greater(groups["member_count"], 0)
    with_members = groups.filter(has_members).combine_chunks()
    subscribed = with_members["subscribed_topics"].combine_chunks()
    owners = with_members.select(_TOPIC[:2]).take(pc.list_parent_indices(subscribed))
    # A client with `assign()` chooses its partitions itself. Its group has no protocol type.
    is_left = pc.and_not(pc.not_equal(groups["protocol_type"], ""), has_members)
    left = groups.filter(is_left)["group_id"].combine_chunks()
    topics = [
        owners.append_column("topic", pc.list_flatten(subscribed)),
        assigned.filter(pc.is_in(assigned["group_id"], with_members["group_id"].combine_chunks())),
        committed.filter(pc.is_in(committed["group_id"], left)),
    ]
    schema = pa.schema([UNCOMMITTED.field(name) for name in _TOPIC])
    distinct = pa.concat_tables(rows.select(_TOPIC).cast(schema) for rows in topics)
    return distinct.group_by(_TOPIC).aggregate([])


def _places(
    topics: pa.Table, committed: pa.Table, assigned: pa.Table, sampled: pa.Table
) -> pa.Table:
    """The sampled partitions of topics of groups that have no committed offset (`_PLACE`).

    Of a topic of which a group has committed only a small part, those of members count alone.
    """
    # Most groups have committed all of them: numbers of partitions show that.
    logs = Logs.of(sampled)
    number = logs.numbers(committed)
    counts = committed.filter(pa.array(number != UNKNOWN)).group_by(_TOPIC)
    counts = counts.aggregate([("partition", "count")])
    at = positions(topics, counts.select(_TOPIC))
    committed_count = counts["partition_count"].take(pa.array(at, mask=at == NOWHERE)).fill_null(0)
    sizes = sampled.group_by("topic").aggregate([("partition", "count")])
    size = sizes["partition_count"].take(pc.index_in(topics["topic"], sizes["topic"]))
    is_part = pc.less(committed_count, size).fill_null(False)
    # Without any, the topic may have been deleted: its partitions are no member's any more.
    is_small = pc.and_(
        pc.greater(committed_count, 0),
        pc.less(pc.multiply(committed_count, _SMALL_PART), size).fill_null(True),
    )
    places = topics.filter(pc.and_not(is_part, is_small)).join(sampled, "topic", join_type="inner")
    with_rest = topics.filter(pc.and_(is_part, is_small))
    member_places = assigned.filter(pa.array(logs.numbers(assigned) != UNKNOWN))
    is_rest = positions(member_places.select(_TOPIC), with_rest.select(_TOPIC)) != NOWHERE
    member_places = member_places.filter(pa.array(is_rest))
    schema = pa.schema([UNCOMMITTED.field(name) for name in _PLACE])
    places = pa.concat_tables(rows.select(_PLACE).cast(schema) for rows in (places, member_places))
    is_committed = positions(places.select(KEY), committed.select(KEY)) != NOWHERE
    return places.filter(pa.array(~is_committed))


def _last_commit_ms(reader: TableReader, places: pa.Table, committed: pa.Table) -> Int64s:
    """The time of the last commit of the topic of each place; `UNKNOWN` without one."""
    last = committed.group_by(_TOPIC).aggregate([("commit_timestamp", "max")])
    at = positions(places.select(_TOPIC), last.select(_TOPIC))
    times = reader.own_times(last["commit_timestamp_max"])
    times_ms = to_ms(times.take(pa.array(at, mask=at == NOWHERE)))
    last_ms: Int64s = times_ms.fill_null(UNKNOWN).to_numpy()
    return last_ms


def _members_since_ms(
    reader: TableReader, now: datetime, places: pa.Table, group_ids: Sequence[str]
) -> Int64s:
    """The time since which members read the topic of each place without a committed offset.

    It is the first assignment of the topic since the group was empty, or the deletion of the
    offset. `UNKNOWN` if the history has neither, nor the last change of an assignment.
    """
    # Events have times of the brokers.
    until = now + reader.clock_skew
    since = until - _WINDOWS[-1]
    during: list[tuple[str, str, Any]] = [
        *(("day", ">=", since.date()), ("record_timestamp", ">=", since)),
        *(("record_timestamp", "<=", until), ("event", "in", _EVENTS)),
        ("group_id", "in", group_ids),
    ]
    columns = [*KEY, "record_offset", "event", "record_timestamp", "assignment_after"]
    events = reader.read(GROUP_EVENTS.name, columns, during).sort_by("record_offset")
    begun = _assignments_begun(events)
    deleted = events.filter(pc.is_in(events["event"], pa.array(_DELETIONS)))
    last = assigned_at(reader, group_ids)
    rows_of = {
        tuple(_TOPIC[1:]): begun,
        tuple(KEY): deleted.select([*KEY, "record_timestamp"]),
        ("group_id",): pa.table(
            [pa.array([*last], pa.string()), pa.array([*last.values()], TIMESTAMP)],
            names=["group_id", "record_timestamp"],
        ),
    }
    begun_ms, deleted_ms, last_ms = (
        _times_ms(places.select(key), rows.select([*key, "record_timestamp"]))
        for key, rows in rows_of.items()
    )
    since_ms = np.where(begun_ms == UNKNOWN, last_ms, begun_ms)
    skew_ms = round(reader.clock_skew / timedelta(milliseconds=1))
    return np.where(since_ms == UNKNOWN, UNKNOWN, np.maximum(since_ms, deleted_ms) - skew_ms)


def _assignments_begun(events: pa.Table) -> pa.Table:
    """`group_id`, `topic` and the time of its first assignment since the group was empty.

    The events of groups are in the order of the log.
    """
    is_assigned = pc.equal(events["event"], EventName.ASSIGNMENT_CHANGED.value)
    is_deleted = pc.is_in(events["event"], pa.array(_DELETIONS))
    group = events["group_id"].combine_chunks().dictionary_encode()
    number_of_event, places = group.indices.to_numpy(), np.arange(len(events))
    is_end = pc.invert(pc.or_(is_assigned, is_deleted)).to_numpy()
    ended = np.full(len(group.dictionary), NOWHERE)
    np.maximum.at(ended, number_of_event[is_end], places[is_end])
    is_begun = is_assigned.to_numpy() & (places > ended[number_of_event])
    after = events["assignment_after"].filter(pa.array(is_begun)).combine_chunks()
    # Numbers, because there is a row for each assigned partition.
    topic = pc.struct_field(pc.list_flatten(after), "topic").dictionary_encode()
    event = places[is_begun][pc.list_parent_indices(after).to_numpy()]
    topics = max(len(topic.dictionary), 1)
    number = number_of_event[event].astype(np.int64) * topics + topic.indices.to_numpy()
    begun = pa.table([number, event], names=["number", "place"]).group_by("number")
    begun = begun.aggregate([("place", "min")])
    numbers = np.divmod(begun["number"].to_numpy(), topics)
    names = (
        values.dictionary.take(pa.array(codes))
        for values, codes in zip((group, topic), numbers, strict=True)
    )
    times = events["record_timestamp"].take(begun["place_min"])
    return pa.table([*names, times], names=[*_TOPIC[1:], "record_timestamp"])


def _times_ms(keys: pa.Table, rows: pa.Table) -> Int64s:
    """The time of the last row with each key; `UNKNOWN` without one."""
    among = rows.drop_columns("record_timestamp")
    at = positions(keys, among.cast(keys.schema))
    times = rows["record_timestamp"].take(pa.array(at, mask=at == NOWHERE))
    times_ms: Int64s = to_ms(times).fill_null(UNKNOWN).to_numpy()
    return times_ms


def assigned_at(reader: TableReader, group_ids: Sequence[str]) -> dict[str, datetime]:
    """The time of the last change of an assignment of each group, by the brokers' clock."""
    rows = reader.read(
        "coordinator_records",
        ["group_id", "record_timestamp"],
        [
            *(("record_type", "in", list(_ASSIGNMENT_TYPES)), ("group_id", "in", group_ids)),
            *(("is_tombstone", "=", False),),
        ],
    )
    newest = rows.group_by("group_id").aggregate([("record_timestamp", "max")])
    times = zip(*(column.to_pylist() for column in newest.columns), strict=True)
    return {group_id: at for group_id, at in times if at is not None}


def _beginnings(
    reader: TableReader,
    now: datetime,
    places: pa.Table,
    has_members: Bools,
    since_ms: Int64s,
    committed: pa.Table,
    sampled: pa.Table,
    known: KnownBeginnings,
) -> _Beginnings:
    """Where the group of each place began to read it.

    `since_ms` is the time since which members read the topic, or without members that of the
    group's last commit of it.
    """
    logs = Logs.of(places)
    newest = newest_sample(reader, now) or now
    histories = logs.histories(reader, since=newest - MAX_SAMPLE_AGE, until=now, of_all=False)
    log = logs.of_rows
    ends = histories.newest.log_end_offset[log]
    is_empty = (ends == histories.newest.log_start_offset[log]) & has_members
    topic_ids = histories.newest.topic_id[log]
    topic_id = pa.array(topic_ids, pa.string(), mask=topic_ids == UNKNOWN)
    depends = [pa.array(has_members), pa.array(since_ms), topic_id]
    place = positions(places.select(KEY), known.rows.select(KEY))
    before = known.rows.take(pa.array(np.maximum(place, 0), mask=place == NOWHERE))
    is_known = (place != NOWHERE) & (before["unread_from"].fill_null(0).to_numpy() <= ends)
    for name, values in zip(_KNOWN.names[3:6], depends, strict=True):
        is_same = pc.equal(before[name], values).fill_null(False)
        is_none = pc.and_(pc.is_null(before[name]), pc.is_null(values))
        is_known &= pc.or_(is_same, is_none).to_numpy()
    # An empty log has nothing to read, whenever the members came.
    no = np.zeros(len(places), np.bool_)
    beginnings = _Beginnings(since_ms.copy(), ends.copy(), no, no.copy())
    columns = (before[name].filter(pa.array(is_known)).to_numpy() for name in _KNOWN.names[6:])
    beginnings.put(np.flatnonzero(is_known), _Beginnings(*columns))
    unknown = np.flatnonzero(~is_known & ~is_empty)
    if unknown.size:
        search = _Search(
            *(reader, now, places.take(pa.array(unknown)), has_members[unknown], since_ms[unknown]),
            committed,
        )
        beginnings.put(unknown, search.beginnings(sampled))
    rows = pa.table([*places.select(KEY).columns, *depends, *beginnings], schema=_KNOWN)
    known.rows = rows.filter(pa.array(~is_empty))
    return beginnings


class _Window(NamedTuple):
    """The beginnings by the samples of a window, and whether longer ones would not change them."""

    beginnings: _Beginnings
    is_whole: Bools


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for beginnings in the samples of the topics.

    Attributes:
        reader: the snapshot.
        now: the time up to which samples count.
        places: the places (`_PLACE`).
        has_members: whether each group has members.
        since_ms: see `_beginnings`.
        committed: the committed offsets of all groups.
    """

    reader: TableReader
    now: datetime
    places: pa.Table
    has_members: Bools
    since_ms: Int64s
    committed: pa.Table

    def beginnings(self, sampled: pa.Table) -> _Beginnings:
        """The beginning of each place; `sampled` are the partitions of all topics."""
        count = self.places.num_rows
        unknown, no = np.full(count, UNKNOWN), np.zeros(count, np.bool_)
        beginnings = _Beginnings(unknown, unknown.copy(), no, no.copy())
        rest = np.arange(count)
        sizes = self.reader.rows_by_day(LOG_OFFSETS)
        windows = [
            window
            for window in _WINDOWS
            if window is _WINDOWS[0] or not is_too_large([sizes], self.now - window, self.now)
        ]
        for window in windows:
            if not rest.size:
                break
            places = self.places.take(pa.array(rest))
            topics = pc.unique(places["topic"].combine_chunks())
            logs = Logs.of(sampled.filter(pc.is_in(sampled["topic"], topics)))
            since = self.now - window
            histories = logs.histories(self.reader, since=since, until=self.now, of_all=False)
            window_beginnings = self._in_window(rest, logs, histories, moment_ms(since))
            is_done = window_beginnings.is_whole | (window is windows[-1])
            beginnings.put(rest[is_done], window_beginnings.beginnings.only(is_done))
            rest = rest[~is_done]
        return beginnings

    def _in_window(
        self, numbers: Int64s, logs: Logs, histories: LogHistories, begin_ms: int
    ) -> _Window:
        """The beginnings of the places with these numbers, from the samples since a time."""
        places = self.places.take(pa.array(numbers))
        has_members, since_ms = self.has_members[numbers], self.since_ms[numbers]
        log = logs.numbers(places)
        first_ms = histories.sampled_since_ms(log)
        # The first sample in the window of a log that rests is late.
        whole_ms = begin_ms + MAX_SAMPLE_AGE // timedelta(milliseconds=1)
        is_recreated = histories.recreated_at_ms[log] != UNKNOWN
        is_new = is_recreated | _is_new(logs, histories)[log] & (first_ms > whole_ms)
        was_there = is_new & (since_ms <= first_ms)
        is_later = is_new & ~was_there
        was_there[is_later] = self._had_committed(places, first_ms, is_later)
        start, end = histories.offsets_from(log, np.maximum(since_ms, begin_ms))
        # Where the log was empty, all records came later.
        is_empty = (start == end) & (end != UNKNOWN)
        first_start, _ = histories.offsets_from(log, first_ms)
        is_read = has_members | was_there | is_empty
        beginnings = _Beginnings(
            np.where(was_there, first_ms, np.where(is_read, since_ms, UNKNOWN)),
            np.where(was_there, first_start, end),
            ~was_there & ~is_empty,
            was_there & is_recreated,
        )
        return _Window(beginnings, is_new | is_empty | (since_ms >= whole_ms))

    def _had_committed(self, places: pa.Table, first_ms: Int64s, is_wanted: Bools) -> Bools:
        """Whether the group had committed an offset of the topic before a time, of wanted rows."""
        if not is_wanted.any():
            return np.zeros(0, np.bool_)
        places, before_ms = places.filter(pa.array(is_wanted)), first_ms[is_wanted]
        names = [pc.unique(places[name]).to_pylist() for name in _TOPIC[1:]]
        latest = datetime.fromtimestamp(int(before_ms.max()) / 1000, timezone.utc)
        latest += self.reader.clock_skew
        earliest = self.now - _WINDOWS[-1]
        during: list[tuple[str, str, Any]] = [
            *(("day", ">=", earliest.date()), ("record_timestamp", "<=", latest)),
            *(("group_id", "in", names[0]), ("topic", "in", names[1])),
            ("outcome", "=", Outcome.COMMITTED.value),
        ]
        columns = [*_TOPIC, "commit_timestamp"]
        history = self.reader.read(OFFSET_COMMITS.name, columns, during).select(columns)
        # A group that has stopped has its last commits.
        commits = pa.concat_tables(
            [history.cast(nullable(history.schema)), self.committed.select(columns)],
            promote_options="permissive",
        )
        firsts = commits.group_by(_TOPIC).aggregate([("commit_timestamp", "min")])
        at = positions(places.select(_TOPIC), firsts.select(_TOPIC))
        times = self.reader.own_times(firsts["commit_timestamp_min"])
        committed_ms = to_ms(times.take(pa.array(at, mask=at == NOWHERE)))
        return pc.less_equal(committed_ms, pa.array(before_ms)).fill_null(False).to_numpy()


def _is_new(logs: Logs, histories: LogHistories) -> Bools:
    """Whether each log was created after others: it is one of the last of its topic, from 0 on.

    Partitions are numbered in the order of their creation. A log that could not be sampled before
    its first sample was there before.
    """
    numbers = np.arange(len(logs))
    first_ms = np.where(
        histories.is_known, histories.sampled_since_ms(numbers), np.iinfo(np.int64).max
    )
    is_new = np.zeros(len(logs), np.bool_)
    _, begins = np.unique(logs.codes >> 32, return_index=True)
    for begin, end in pairwise([*begins.tolist(), len(logs)]):
        topic_first_ms = first_ms[begin:end]
        later = np.minimum.accumulate(topic_first_ms[::-1])[::-1]
        is_new[begin:end] = (topic_first_ms > topic_first_ms.min()) & (topic_first_ms <= later)
    start, _ = histories.offsets_from(numbers, first_ms)
    was_away = histories.first_away_ms < first_ms
    return is_new & histories.is_known & (start == 0) & ~was_away
