"""Topics that were deleted, and those that were created again since a group's last commit.

In a topic that was created again, such a committed offset is no position in the present log. The
commit has the topic id, if the client and the broker know it (Kafka 4.1). Otherwise the samples
show when the topic id changed: those since the commit are read, once for each topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic id, and when the topic was created again with it; `UNKNOWN` if no sample shows it.

    The samples since `read_from_ms` were read; those with the topic id begin at `sampled_from_ms`.
    `replaced_ms` is the time of the last one with another topic id, and `first_ends` has the first
    log end of each partition that was read.
    """

    topic_id: str | None
    recreated_at_ms: int
    read_from_ms: int
    sampled_from_ms: int
    replaced_ms: int
    first_ends: dict[int, int]

    def has_commit(self, partition: int, committed_offset: int, committed_ms: int) -> bool:
        """Whether a commit without a topic id is one of this topic.

        It may come shortly before the first sample of the topic; one of the deleted topic that is
        not past the first log end is rare then.
        """
        if committed_ms >= self.recreated_at_ms:
            return True
        is_between = UNKNOWN != self.replaced_ms < committed_ms
        return is_between and committed_offset <= self.first_ends.get(partition, UNKNOWN)

    def is_read(self, topic_id: str | None, since_ms: int) -> bool:
        """Whether enough samples were read for a commit at that time."""
        is_enough = self.recreated_at_ms != UNKNOWN or self.read_from_ms <= since_ms
        return self.topic_id == topic_id and is_enough


@dataclass(slots=True)
class KnownTopics:
    """The topics whose samples were read, and since when deleted ones are gone."""

    by_name: dict[str, _Topic] = field(default_factory=dict)
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
    suspects = rows.take(pa.array(numbers))
    committed_ms = suspects["committed_ms"].to_numpy()
    names, ids = suspects["topic"].to_pylist(), topic_ids[numbers].tolist()
    unread: dict[str, int] = {}
    for name, topic_id, since_ms in zip(names, ids, committed_ms.tolist(), strict=True):
        topic = known.by_name.get(name)
        if topic is None or not topic.is_read(topic_id, since_ms):
            unread[name] = min(since_ms, unread.get(name, since_ms))
    if unread:
        is_unread = pc.is_in(suspects["topic"], pa.array([*unread], pa.string()))
        _read(reader, now, suspects.filter(is_unread), min(unread.values()), known)
    commit_columns = ("partition", "committed_offset", "topic_id", "committed_ms")
    for number, name, topic_id, partition, committed_offset, commit_topic_id, since_ms in zip(
        *(numbers.tolist(), names, ids),
        *(suspects[column].to_pylist() for column in commit_columns),
        strict=True,
    ):
        topic = known.by_name[name]
        if commit_topic_id is None and not topic.has_commit(partition, committed_offset, since_ms):
            at_ms[number] = topic.recreated_at_ms
        elif commit_topic_id is not None and commit_topic_id != topic_id:
            is_seen = topic.recreated_at_ms != UNKNOWN
            at_ms[number] = topic.recreated_at_ms if is_seen else topic.sampled_from_ms
    return at_ms


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
    read_from_ms = min(moment_ms(now - wide), since_ms)
    numbers = np.arange(len(logs))
    _, first_ends = histories.offsets_from(numbers, histories.recreated_at_ms)
    columns = (
        histories.newest.topic_id,
        histories.recreated_at_ms,
        histories.sampled_since_ms(numbers),
        histories.replaced_ms,
        first_ends,
    )
    names, partitions = (column.to_pylist() for column in logs.keys)
    for name, partition, topic_id, at_ms, from_ms, replaced_ms, first_end in zip(
        *(names, partitions), *(column.tolist() for column in columns), strict=True
    ):
        before = known.by_name.get(name)
        if before is not None and before.topic_id != topic_id:
            before = None
        ends = {} if before is None else before.first_ends
        ends[partition] = first_end
        topic = _Topic(topic_id, at_ms, read_from_ms, from_ms, replaced_ms, ends)
        if before is not None:
            # Another partition of the topic, or an earlier evaluation.
            topic = replace(
                topic,
                recreated_at_ms=max(at_ms, before.recreated_at_ms),
                replaced_ms=max(replaced_ms, before.replaced_ms),
            )
        known.by_name[name] = topic


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
    seen: set[tuple[str, str, int]] = set()
    is_kept = []
    for is_new, *key in zip(is_in_new, *(events[name].to_pylist() for name in KEY), strict=True):
        is_kept.append(not is_new or tuple(key) in seen)
        if is_new:
            seen.add(tuple(key))
    return events.filter(pa.array(is_kept))


def gone_since_ms(
    reader: TableReader, now: datetime, topics: Sequence[str], known: KnownTopics
) -> dict[str, int]:
    """The time of the first sample without each of these topics, which the newest one lacks.

    It is `UNKNOWN` if no sample of the last seven days has the topic: it was deleted before, or
    never created.
    """
    times = {topic: at_ms for topic, at_ms in known.gone.items() if topic in topics}
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
