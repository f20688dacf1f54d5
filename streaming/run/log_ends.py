"""The ends of logs at which a group waits: offsets without a record are not left to read.

A client such as librdkafka commits the offset after the last record that it received. It receives
neither transaction markers nor aborted records nor gaps of compaction. So `run` reads a log between
a group and the last stable offset, up to which a `read_committed` consumer gets records:

- if the last stable offset rests, for all groups near it. A log with long transactions rests
  between two of their ends.
- while it moves, only for groups that have committed nothing for a while: a producer may abort all
  of its transactions. As soon as a record is found, the log is not read for this offset again.

A log that was read is read on from there, so nothing is read twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import TIMESTAMP, with_columns
from coordinator_state.errors import DecodeError
from streaming.errors import ConfigurationError
from streaming.kafka.partition_offsets import LogOffsets, TopicPartition
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_OFFSETS

logger = logging.getLogger(__name__)

_NEAR: Final = 10_000
"""A log is read for a group if at most so many offsets are unread."""
_LITTLE: Final = 16
"""A log that has grown by so many offsets is read before it rests."""
_WAITS_AFTER: Final = timedelta(seconds=20)
"""A group waits if it has committed nothing for so long: STOP and STALL need more."""
_MOST_MOVING: Final = 500
"""So many logs are read in a round although their last stable offset moves."""
_NOT_READ: Final = -1
POSITIONS: Final = pa.schema(
    [
        *(("topic", pa.string()), ("partition", pa.int32())),
        *(("committed_offset", pa.int64()), ("committed_at", TIMESTAMP)),
    ]
)
"""The committed offsets of groups, and when they were committed, by the clock of `run`."""
Positions: TypeAlias = Callable[[AbstractSet[TopicPartition]], pa.Table]
"""Returns the positions (`POSITIONS`) of groups.

The committed offsets are always those of all logs. The positions of members without a committed
offset are only sure to be there if a log of the argument has such a member.
"""


def committed_positions(reader: TableReader) -> pa.Table:
    """The positions (`POSITIONS`) of groups with committed offsets."""
    rows = reader.read(GROUP_OFFSETS.name, [*POSITIONS.names[:3], "commit_timestamp"])
    times = reader.own_times(rows["commit_timestamp"])
    return pa.table([*rows.columns[:3], times], schema=POSITIONS)


class ReadableLogs(Protocol):
    """Brokers whose logs can be read; see `LogOffsetsClient.end_markers`."""

    def end_markers(
        self, places: Mapping[TopicPartition, tuple[int, int]]
    ) -> Mapping[TopicPartition, int | DecodeError | None]: ...


class _Attempt(NamedTuple):
    """The end of a log, and the committed offset of the group for which it is read.

    `is_nearest` says whether no other group is nearer to the end.
    """

    end: int
    offset: int
    is_nearest: bool


@dataclass(frozen=True, slots=True)
class _End:
    """The last stable offset of a log, and the last record before it, once it was read.

    Attributes:
        offset: the last stable offset.
        topic_id: the topic id of the sample.
        read_to: the last stable offset when the log was last read; None if it never was.
        records_end: the offset after the last record before `read_to`.
        unread: the last attempt, if the log may not be read or its end is too long.
        asked_in: the round in which it was asked for last.
    """

    offset: int
    topic_id: str | None
    read_to: int | None = None
    records_end: int = 0
    unread: _Attempt | None = None
    asked_in: int = 0

    @property
    def markers(self) -> int | None:
        """The number of offsets without a record before the end; None if it was not read."""
        return self.offset - self.records_end if self.read_to == self.offset else None

    def next(self, sample: LogOffsets) -> _End:
        """The end in a later sample: this one if it has not moved."""
        end = sample.last_stable_offset or 0
        if sample.topic_id != self.topic_id or end < self.offset:
            return _End(end, sample.topic_id)
        return self if end == self.offset else replace(self, offset=end)

    @property
    def has_grown_a_little(self) -> bool:
        """Whether few offsets follow an end that was read, and has offsets without a record."""
        read_to = self.read_to or 0
        return self.records_end < read_to < self.offset <= read_to + _LITTLE

    def is_asked(self, committed_offset: int) -> bool:
        """Whether to read it for a group, after an end that could not be read.

        It is read again for the nearest group, and then if this one is half as far from that end,
        or if both have moved. So neither a consumer that reads its backlog nor a stuck one causes a
        read each time.
        """
        if self.unread is None or not self.unread.is_nearest:
            return True
        end, offset, _ = self.unread
        if self.offset > end:
            return committed_offset > offset
        return 2 * (end - committed_offset) <= end - offset

    def read_from(self, committed_offset: int) -> int:
        """The offset from which to read it."""
        return committed_offset if self.read_to is None else max(self.read_to, committed_offset)

    def read(self, first: int, markers: int) -> _End:
        """The end once `markers` offsets without a record were counted from an offset on."""
        records_end = self.offset - markers
        if records_end == first == self.read_to:
            records_end = self.records_end
        return replace(self, read_to=self.offset, records_end=records_end, unread=None)


class LogEnds:
    """The ends of logs, which are read if a group waits there.

    Attributes:
        unreadable: the logs whose end cannot be decoded.
    """

    def __init__(self, logs: ReadableLogs) -> None:
        self._logs = logs
        self._known: dict[TopicPartition, _End] = {}
        self._round = 0
        self.unreadable: set[TopicPartition] = set()

    def continue_from(self, logs: Mapping[TopicPartition, LogOffsets]) -> None:
        """Take over the ends that an earlier run has read."""
        self._known = {
            at: _End(end, sample.topic_id, read_to=end, records_end=end - sample.end_markers)
            for at, sample in logs.items()
            if sample.end_markers and (end := sample.last_stable_offset) is not None
        }

    def with_markers(
        self, sampled_at: datetime, samples: list[LogOffsets], positions: Positions
    ) -> list[LogOffsets]:
        """Add the number of offsets without a record before the last stable offset."""
        before, self._known = self._known, {}
        self._round += 1
        sample_by_place = {_place(sample): sample for sample in samples}
        resting: set[TopicPartition] = set()
        moving: set[TopicPartition] = set()
        for at, sample in sample_by_place.items():
            known = before.get(at)
            if sample.last_stable_offset is None:
                # It is unavailable.
                if known is not None:
                    self._known[at] = known
                continue
            end = self._known[at] = (
                _End(sample.last_stable_offset, sample.topic_id)
                if known is None
                else known.next(sample)
            )
            if end.markers is not None:
                continue
            # Otherwise the lag would jump with each marker.
            (resting if end is known or end.has_grown_a_little else moving).add(at)
        if resting or moving:
            rows = positions(resting)
            waits = pc.less(rows["committed_at"], pa.scalar(sampled_at - _WAITS_AFTER, TIMESTAMP))
            waiting = rows.filter(waits)
            # Most groups commit all the time, so nobody waits at most logs that move.
            topics = {*pc.unique(waiting["topic"]).to_pylist()}
            waited_for = {at: sample_by_place[at] for at in moving if at.topic in topics}
            asking = self._asking(waited_for, waiting, is_moving=True)
            first = sorted(asking, key=lambda at: self._known[at].asked_in)[:_MOST_MOVING]
            asking = {at: asking[at] for at in first}
            if asking := self._asking({at: sample_by_place[at] for at in resting}, rows) | asking:
                self._read(asking)
        self.unreadable &= sample_by_place.keys()
        return [
            sample
            if sample.last_stable_offset is None
            or (markers := self._known[at].markers) == sample.end_markers
            else replace(sample, end_markers=markers)
            for at, sample in sample_by_place.items()
        ]

    def _asking(
        self,
        asked: Mapping[TopicPartition, LogOffsets],
        positions: pa.Table,
        *,
        is_moving: bool = False,
    ) -> dict[TopicPartition, _Attempt]:
        """The attempt for each of these logs with a group near its end.

        The offset is that of the group that is furthest from the end, so the answer holds for all
        of them; or of the nearest one if so much could not be read. A group whose records are
        deleted will read from the log start. In a log that moves, a group does not count if a
        record is known to be left for it.
        """
        if not asked or not positions.num_rows:
            return {}
        known = [self._known[at] for at in asked]
        logs = pa.table(
            {
                "topic": pa.array([at.topic for at in asked], pa.string()),
                "partition": pa.array([at.partition for at in asked], pa.int32()),
                "end": pa.array([each.offset for each in known], pa.int64()),
                "read_to": pa.array(
                    [_NOT_READ if each.read_to is None else each.read_to for each in known]
                ),
                "records_end": pa.array([each.records_end for each in known], pa.int64()),
                "log_start": pa.array([each.log_start_offset or 0 for each in asked.values()]),
            }
        )
        rows = positions.join(logs, ["topic", "partition"], join_type="inner")
        committed_offset = pc.max_element_wise(rows["committed_offset"], rows["log_start"])
        rows, end = with_columns(rows, {"committed_offset": committed_offset}), rows["end"]
        unread = pc.subtract(end, pc.max_element_wise(committed_offset, rows["read_to"]))
        is_near = pc.and_(pc.less(committed_offset, end), pc.less_equal(unread, _NEAR))
        if is_moving:
            is_near = pc.and_(is_near, pc.greater_equal(committed_offset, rows["records_end"]))
        near = rows.filter(is_near).group_by(["topic", "partition"])
        bounds = near.aggregate([("committed_offset", "min"), ("committed_offset", "max")])
        offsets = {
            TopicPartition(topic, partition): bounds_of_log
            for topic, partition, *bounds_of_log in zip(*bounds.to_pydict().values(), strict=True)
        }
        chosen = {}
        for at, (furthest, nearest) in offsets.items():
            log = self._known[at]
            offset = furthest if log.unread is None else nearest
            if log.is_asked(offset):
                chosen[at] = _Attempt(log.offset, offset, is_nearest=offset == nearest)
        return chosen

    def _read(self, asking: Mapping[TopicPartition, _Attempt]) -> None:
        """Read the ends of logs from a committed offset on."""
        ends = {
            at: (self._known[at].read_from(attempt.offset), attempt.end)
            for at, attempt in asking.items()
        }
        for at in ends:
            self._known[at] = replace(self._known[at], asked_in=self._round)
        try:
            markers_by_place = self._logs.end_markers(ends)
        except (ConfigurationError, TimeoutError) as error:
            logger.info(
                "cannot read the ends of %(logs)s logs: %(error)s",
                {"logs": len(ends), "error": error},
            )
            # The next sample is the retry.
            return
        for at, (first, _) in ends.items():
            if at not in markers_by_place:
                # Its leader did not answer.
                continue
            known, markers = self._known[at], self._readable(at, markers_by_place[at])
            self._known[at] = (
                replace(known, unread=asking[at]) if markers is None else known.read(first, markers)
            )

    def _readable(self, at: TopicPartition, markers: int | DecodeError | None) -> int | None:
        """Return the markers; None if the log end cannot be read, which is logged once."""
        if not isinstance(markers, DecodeError):
            self.unreadable.discard(at)
            return markers
        if at not in self.unreadable:
            logger.warning(
                "cannot read the end of log %(topic)s-%(partition)s: %(error)s; it is unknown "
                "whether a record is left",
                {"topic": at.topic, "partition": at.partition, "error": markers},
            )
        self.unreadable.add(at)
        return None


def _place(sample: LogOffsets) -> TopicPartition:
    return TopicPartition(sample.topic, sample.partition)
