"""Samples of moments at which nothing was sampled, from the log ends that brokers have by time.

`run` was stopped, could not reach the brokers, or had not begun. ListOffsets answers the first
offset whose record has a timestamp or a later one: that was the log end then, as far as producers
set timestamps by the time. The log ends of the samples before and after limit it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from coordinator_state.insight.lag import PRESENT
from coordinator_state.log.commit_sampling import CommitSampling
from streaming.clock import moment_ms
from streaming.kafka.partition_offsets import LogOffsets, TopicPartition
from streaming.lag.sample_runs import Sample, SampleRuns

_MOST_MOMENTS: Final = 300
_MOST_ANSWERS: Final = 100_000
"""Of all logs and moments: they take a broker about four seconds."""
_OLDEST: Final = timedelta(days=6)
_YOUNG: Final = timedelta(hours=1)
_YOUNG_STEP: Final = timedelta(seconds=15)
_AGE_RATIO: Final = 1.1
"""Of two older moments before the first sample: so exact is the time lag of an older record."""


class PastEnds(NamedTuple):
    """The log ends at a moment: None for the end that a log has now."""

    moment: datetime
    log_ends: Mapping[TopicPartition, int | None]


def missed_moments(begin: datetime | None, end: datetime, logs: int) -> list[datetime]:
    """The moments without samples between two samples, oldest first.

    They are as far apart as commits of sampled history, or further apart if there are many logs.

    Args:
        begin: the time of the last sample; None before the first one.
        end: the time of the next sample.
        logs: the number of logs.
    """
    most = min(_MOST_MOMENTS, _MOST_ANSWERS // max(logs, 1))
    begin = None if begin is None else max(begin, end - _OLDEST)
    moments = [*_moments_before(end)] if begin is None else [*_moments_between(begin, end)]
    step = -(-len(moments) // most) if most else len(moments) + 1
    return moments[step - 1 :: step]


def _moments_between(begin: datetime, end: datetime) -> Iterator[datetime]:
    """The ends of the intervals of history after a time, before another one."""
    sampling, at_ms, end_ms = CommitSampling.at(moment_ms(end)), moment_ms(begin), moment_ms(end)
    while (at_ms := sampling.interval(at_ms)[1]) < end_ms:
        yield end - timedelta(milliseconds=end_ms - at_ms)


def _moments_before(end: datetime) -> Iterator[datetime]:
    ages = [_YOUNG_STEP]
    while ages[-1] < _OLDEST:
        ages.append(ages[-1] + _YOUNG_STEP if ages[-1] < _YOUNG else ages[-1] * _AGE_RATIO)
    yield from (end - age for age in reversed(ages))


def past_samples(
    before: Mapping[TopicPartition, LogOffsets],
    after: Collection[LogOffsets],
    after_at: datetime,
    past_ends: Sequence[PastEnds],
) -> list[Sample]:
    """The samples of missed moments, without repeated identical ones.

    Args:
        before: the last samples; a log without one was not sampled before.
        after: the next samples.
        after_at: the time of the next samples.
        past_ends: the log ends at the moments in between.
    """
    runs = SampleRuns()
    samples: list[Sample] = []
    for moment, log_ends in past_ends:
        samples += runs.keep(moment, _known(before, after, log_ends))
    samples += runs.keep(after_at, after)
    return [sample for sample in samples if sample.sampled_at < after_at]


def _known(
    before: Mapping[TopicPartition, LogOffsets],
    after: Iterable[LogOffsets],
    log_ends: Mapping[TopicPartition, int | None],
) -> Iterator[LogOffsets]:
    for sample in after:
        at = TopicPartition(sample.topic, sample.partition)
        if at in log_ends:
            past = _past_offsets(before.get(at), sample, log_ends[at])
            if past is not None:
                yield past


def _past_offsets(
    before: LogOffsets | None, after: LogOffsets, log_end: int | None
) -> LogOffsets | None:
    """The offsets of a log between two samples; None if they are not known."""
    start, newest_end = after.log_start_offset, after.log_end_offset
    if after.state != PRESENT or start is None or newest_end is None:
        return None
    end = newest_end if log_end is None else min(log_end, newest_end)
    if before is not None:
        if before.topic_id != after.topic_id or before.log_end_offset is None:
            return None
        if end == start != before.log_start_offset:
            # The records of that time are deleted.
            return None
        if end <= before.log_end_offset:
            return before
        start = before.log_start_offset
    if end == newest_end:
        return replace(after, log_start_offset=start)
    # Open transactions, and the records at the end, are those of no later time.
    return replace(
        after,
        log_start_offset=min(start or 0, end),
        log_end_offset=end,
        last_stable_offset=end,
        end_markers=None,
    )
