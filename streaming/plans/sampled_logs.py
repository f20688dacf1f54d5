"""The log start and log end of partitions at a moment, from the samples in `log_offsets`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final

import pyarrow as pa

from coordinator_state.insight.lag import GONE, UNKNOWN, LogHistories
from coordinator_state.insight.offset_plan import LogBounds
from streaming.kafka.partition_offsets import TopicPartition
from streaming.lag.group_lag import DEFAULT_HISTORY
from streaming.lag.offset_samples import Logs
from streaming.tables.reader import TableReader

_PLACES: Final = pa.schema([("topic", pa.string()), ("partition", pa.int32())])
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
# An unchanged log is sampled every minute while `run` works, so older samples are rarely read.
_WINDOWS: Final = (timedelta(minutes=10), timedelta(days=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledLog:
    """The newest sample of a log that has offsets."""

    topic_id: str | None
    sampled_at: datetime
    bounds: LogBounds


def sampled_logs(
    reader: TableReader, places: Iterable[TopicPartition], at: datetime
) -> dict[TopicPartition, SampledLog | None]:
    """The newest sample of each partition up to a moment; None if the cluster has no such topic.

    A partition without a sample is not in the result. Samples of an earlier topic of the same name,
    and those before the log became shorter, do not count.
    """
    left = sorted(set(places))
    log_by_place: dict[TopicPartition, SampledLog | None] = {}
    for since in (*(at - window for window in _WINDOWS), _EPOCH):
        if left:
            log_by_place |= _between(reader, left, since, at)
            left = [place for place in left if place not in log_by_place]
    return log_by_place


def recreations(
    reader: TableReader, places: Iterable[TopicPartition]
) -> dict[TopicPartition, datetime]:
    """The times of the first samples of topics that were created again in the last days."""
    left = sorted(set(places))
    logs = Logs.of(pa.Table.from_pylist([place._asdict() for place in left], _PLACES))
    since = reader.moment - DEFAULT_HISTORY
    histories = logs.histories(reader, since=since, until=reader.moment, of_all=False)
    times_ms = histories.recreated_at_ms[logs.of_rows].tolist()
    return {
        place: _EPOCH + timedelta(milliseconds=at_ms)
        for place, at_ms in zip(left, times_ms, strict=True)
        if at_ms != UNKNOWN
    }


def _between(
    reader: TableReader, places: list[TopicPartition], since: datetime, until: datetime
) -> dict[TopicPartition, SampledLog | None]:
    rows = pa.Table.from_pylist([place._asdict() for place in places], _PLACES)
    logs = Logs.of(rows)
    histories = logs.histories(reader, since=since, until=until, of_all=False)
    log_by_place: dict[TopicPartition, SampledLog | None] = {}
    for place, log in zip(places, logs.of_rows.tolist(), strict=True):
        if histories.state[log] == GONE:
            log_by_place[place] = None
        elif histories.is_known[log]:
            log_by_place[place] = _sample(histories, log)
    return log_by_place


def _sample(histories: LogHistories, log: int) -> SampledLog:
    newest = histories.newest
    return SampledLog(
        topic_id=newest.topic_id[log],
        sampled_at=_EPOCH + timedelta(milliseconds=int(newest.sampled_at_ms[log])),
        bounds=LogBounds(int(newest.log_start_offset[log]), int(newest.log_end_offset[log])),
    )
