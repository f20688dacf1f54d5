"""Topics that were deleted, and those that were created again since a group's last commit.

In a topic that was created again, such a committed offset is no position in the present log. The
commit has the topic id, if the client and the broker know it (Kafka 4.1). Otherwise the samples
show when the topic id changed: those since the commit are read, once for each topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import NOWHERE, distinct_keys, nullable, positions
from coordinator_state.insight.lag import GONE, PRESENT, UNKNOWN, Bools, Int64s, Texts
from streaming.lag.offset_samples import Logs, to_ms
from streaming.lag.recent_commits import KEY
from streaming.lag.sample_runs import MAX_SAMPLE_AGE
from streaming.tables.clock import moment_ms
from streaming.tables.delta import is_too_large
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOG_OFFSETS

_WINDOWS: Final = (timedelta(minutes=10), timedelta(hours=6), timedelta(days=7))
_SAMPLED_WITHIN_MS: Final = 15_000
"""A new topic is in the samples so soon."""
_BEFORE_MS: Final = 600_000
"""A deleted topic is looked for in so much time before a commit."""


_LOG: Final = ["topic", "partition"]
_TIMES: Final = ("recreated_at_ms", "read_from_ms", "sampled_from_ms", "replaced_ms")
_TOPICS: Final = nullable(
    pa.schema(
        [
            *((name, pa.string()) for name in ("topic", "topic_id")),
            *((name, pa.int64()) for name in _TIMES),
        ]
    )
)
"""A topic id, and when the topic was created again with it; `UNKNOWN` if no sample shows it.

The samples since `read_from_ms` were read; those with the topic id begin at `sampled_from_ms`.
`replaced_ms` is the time of the last one with another topic id."""
_FIRST_ENDS: Final = nullable(
    pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("first_end", pa.int64())])
)
"""The first log end of each partition that was read."""


@dataclass(slots=True)
class KnownTopics:
    """The topics whose samples were read, and since when deleted ones are gone.

    Attributes:
        topics: a row for each topic (`_TOPICS`).
        first_ends: a row for each of their partitions that was read (`_FIRST_ENDS`).
        gone: the time of the first sample without a topic.
    """

    topics: pa.Table = field(default_factory=_TOPICS.empty_table)
    first_ends: pa.Table = field(default_factory=_FIRST_ENDS.empty_table)
    gone: dict[str, int] = field(default_factory=dict)


def recreated_at_ms(
    reader: TableReader,
    now: datetime,
    rows: pa.Table,
    topic_ids: Texts,
    is_suspect: Bools,
    known: KnownTopics,
) -> Int64s:
    """The time at which the topic of each row was created again, after the row's commit.

    It is that of the first sample with the new topic id; `UNKNOWN` if it is the same topic.

    Args:
        reader: the snapshot.
        now: the time up to which samples count.
        rows: `topic`, `partition`, `committed_offset` and `topic_id` of the commit, and
            `committed_ms`.
        topic_ids: the topic id in the newest sample of each row's log; `UNKNOWN` without one.
        is_suspect: the rows to look at; the others give `UNKNOWN`.
        known: the topics of which an earlier evaluation has read the samples.
    """
    at_ms = np.full(rows.num_rows, UNKNOWN)
    numbers = np.flatnonzero(is_suspect & (topic_ids != UNKNOWN))
    if not numbers.size:
        return at_ms
    suspects = rows.take(pa.array(numbers)).combine_chunks()
    committed_ms = suspects["committed_ms"].to_numpy()
    topic_id = pa.array(topic_ids[numbers], pa.string())
    topics = _of_rows(known.topics, suspects, _LOG[:1])
    is_same = pc.and_(pc.is_valid(topics["topic"]), _is_same(topics["topic_id"], topic_id))
    recreated_ms, read_from_ms = (_values(topics[n]) for n in ("recreated_at_ms", "read_from_ms"))
    is_read = is_same.to_numpy() & ((recreated_ms != UNKNOWN) | (read_from_ms <= committed_ms))
    if not is_read.all():
        unread = pc.unique(suspects["topic"].filter(pa.array(~is_read)))
        since_ms = int(committed_ms[~is_read].min())
        _read(reader, now, suspects.filter(pc.is_in(suspects["topic"], unread)), since_ms, known)
        topics = _of_rows(known.topics, suspects, _LOG[:1])
    recreated_ms, _, sampled_ms, replaced_ms = (_values(topics[name]) for name in _TIMES)
    first_end = _values(_of_rows(known.first_ends, suspects, _LOG)["first_end"])
    # A commit may come shortly before the first sample of its topic. One of the deleted topic that
    # is not past the first log end is rare then.
    is_between = (replaced_ms != UNKNOWN) & (replaced_ms < committed_ms)
    is_between &= suspects["committed_offset"].to_numpy() <= first_end
    is_of_old = (committed_ms < recreated_ms) & ~is_between
    has_no_id = pc.is_null(suspects["topic_id"]).to_numpy()
    is_other = ~has_no_id & ~_is_same(suspects["topic_id"], topic_id).to_numpy()
    first_ms = np.where(recreated_ms == UNKNOWN, sampled_ms, recreated_ms)
    at_ms[numbers] = np.where(
        is_other, first_ms, np.where(has_no_id & is_of_old, recreated_ms, UNKNOWN)
    )
    return at_ms


def _of_rows(known: pa.Table, rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The known row with the key of each row; null without one."""
    place = positions(rows.select(key).cast(known.select(key).schema), known.select(key))
    return known.take(pa.array(place, mask=place == NOWHERE))


def _values(column: pa.ChunkedArray) -> Int64s:
    values: Int64s = column.fill_null(UNKNOWN).to_numpy()
    return values


def _read(
    reader: TableReader, now: datetime, places: pa.Table, since_ms: int, known: KnownTopics
) -> None:
    """Read the samples of these logs since a time, or at most seven days."""
    needed = timedelta(milliseconds=moment_ms(now) - since_ms) + MAX_SAMPLE_AGE
    wide = next((window for window in _WINDOWS if window >= needed), _WINDOWS[-1])
    sizes = reader.rows_by_day(LOG_OFFSETS)
    if wide is not _WINDOWS[0] and is_too_large([sizes], now - wide, now):
        wide = _WINDOWS[0]
    logs = Logs.of(places)
    histories = logs.histories(reader, since=now - wide, until=now, of_all=False)
    numbers = np.arange(len(logs))
    _, first_ends = histories.offsets_from(numbers, histories.recreated_at_ms)
    topic_ids = histories.newest.topic_id
    times = {
        "recreated_at_ms": histories.recreated_at_ms,
        "read_from_ms": np.full(len(logs), min(moment_ms(now - wide), since_ms)),
        "sampled_from_ms": histories.sampled_since_ms(numbers),
        "replaced_ms": histories.replaced_ms,
    }
    topic_id = pa.array(topic_ids, pa.string(), mask=topic_ids == UNKNOWN)
    read = pa.table([logs.keys[0], topic_id, *times.values()], schema=_TOPICS)
    ends = pa.table([*logs.keys, first_ends], schema=_FIRST_ENDS)
    # The last topic id holds. Other partitions with it count, and what was read before.
    topics = pa.concat_tables([known.topics, read]).combine_chunks()
    last = _of_rows(topics, topics, _LOG[:1])
    is_current = _is_same(topics["topic_id"], last["topic_id"])
    topics = topics.filter(is_current).group_by("topic", use_threads=False)
    names = ("topic_id", "read_from_ms", "sampled_from_ms")
    topics = topics.aggregate(
        [
            *((name, "last") for name in names),
            *((name, "max") for name in ("recreated_at_ms", "replaced_ms")),
        ]
    )
    columns = ["topic", "topic_id_last", "recreated_at_ms_max", *(f"{n}_last" for n in names[1:])]
    topics = topics.select([*columns, "replaced_ms_max"])
    before = known.topics.filter(is_current.slice(0, len(known.topics)))["topic"]
    known.topics = topics.rename_columns(_TOPICS.names).cast(_TOPICS)
    kept = known.first_ends.filter(
        pc.and_(
            pc.is_in(known.first_ends["topic"], before.combine_chunks()),
            pa.array(positions(known.first_ends.select(_LOG), ends.select(_LOG)) == NOWHERE),
        )
    )
    known.first_ends = pa.concat_tables([kept, ends]).combine_chunks()


def _is_same(topic_ids: pa.ChunkedArray, others: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether topic ids are equal; brokers without topic ids have none."""
    return pc.equal(topic_ids.fill_null(""), others.fill_null(""))


def without_first_in_new_topics(
    reader: TableReader, now: datetime, events: pa.Table, known: KnownTopics
) -> pa.Table:
    """The events of offsets, in the order of the log, but for the first of each in a new topic.

    It compares the first commit in a topic that was created again with an offset of the deleted
    topic. `events` have `KEY` and `record_timestamp`.
    """
    if not events.num_rows:
        return events
    logs = Logs.of(events)
    newest = logs.histories(reader, since=now - MAX_SAMPLE_AGE, until=now, of_all=False).newest
    times = to_ms(reader.own_times(events["record_timestamp"])).fill_null(UNKNOWN)
    at_ms = times.to_numpy()
    first_ms = np.full(len(logs), np.iinfo(np.int64).max)
    np.minimum.at(first_ms, logs.of_rows, at_ms)
    rows = events.select(["topic", "partition"])
    rows = rows.append_column("topic_id", pa.nulls(len(rows), pa.string()))
    # An offset of the deleted topic.
    rows = rows.append_column("committed_offset", pa.array(np.full(len(rows), 2**62)))
    rows = rows.append_column("committed_ms", pa.array(first_ms[logs.of_rows] - _BEFORE_MS))
    every = np.ones(len(rows), np.bool_)
    new_ms = recreated_at_ms(reader, now, rows, newest.topic_id[logs.of_rows], every, known)
    is_in_new = (new_ms != UNKNOWN) & (at_ms >= new_ms - _SAMPLED_WITHIN_MS)
    is_first = np.zeros(len(rows), np.bool_)
    in_new = np.flatnonzero(is_in_new)
    _, first = np.unique(distinct_keys(events.select(KEY))[in_new], return_index=True)
    is_first[in_new[first]] = True
    return events.filter(pa.array(~is_first))


def gone_since_ms(
    reader: TableReader, now: datetime, topics: Sequence[str], known: KnownTopics
) -> dict[str, int]:
    """The time of the first sample without each of these topics, which the newest one lacks.

    It is `UNKNOWN` if no sample of the last seven days has the topic: it was deleted before, or
    never created.
    """
    asked = {*topics}
    times = {topic: at_ms for topic, at_ms in known.gone.items() if topic in asked}
    sizes = reader.rows_by_day(LOG_OFFSETS) if len(times) < len(topics) else {}
    for window in _WINDOWS:
        left = [topic for topic in topics if topic not in times]
        since = now - window
        is_wide = window is not _WINDOWS[0]
        if not left or (is_wide and is_too_large([sizes], since, now)):
            break
        during: list[tuple[str, str, Any]] = [
            *(("day", ">=", since.date()), ("sampled_at", ">=", since)),
            *(("sampled_at", "<=", now), ("topic", "in", left)),
        ]
        rows = reader.read(LOG_OFFSETS.name, ["topic", "sampled_at", "state"], during)
        present = rows.filter(pc.equal(rows["state"], PRESENT)).group_by("topic")
        absent = rows.filter(pc.equal(rows["state"], GONE)).join(
            present.aggregate([("sampled_at", "max")]), "topic", join_type="inner"
        )
        absent = absent.filter(pc.greater(absent["sampled_at"], absent["sampled_at_max"]))
        first = absent.group_by("topic").aggregate([("sampled_at", "min")]).to_pylist()
        times |= {row["topic"]: moment_ms(row["sampled_at_min"]) for row in first}
    known.gone = {topic: times.get(topic, UNKNOWN) for topic in topics}
    return known.gone
