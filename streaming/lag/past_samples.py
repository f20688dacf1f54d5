"""Samples of moments at which nothing was sampled, from the log ends that brokers have by time.

`run` was stopped, could not reach the brokers, or had not begun. ListOffsets answers the first
offset whose record has a timestamp or a later one: that was the log end then, as far as producers
set timestamps by the time. The log ends of the samples before and after limit it. Where nobody
knows the log end, the log is unavailable in the sample.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from coordinator_state.log.commit_sampling import CommitSampling
from streaming.kafka.partition_offsets import UNAVAILABLE, LogOffsets, TopicPartition
from streaming.lag.sample_runs import Sample, SampleRuns
from streaming.tables.clock import moment_ms

_MOST_MOMENTS: Final = 300
_MOST_ANSWERS: Final = 100_000
"""Of all logs and moments: they take a broker about four seconds."""
_OLDEST: Final = timedelta(days=6)
_YOUNG: Final = timedelta(hours=1)
_YOUNG_STEP: Final = timedelta(seconds=15)
_AGE_RATIO: Final = 1.1
_GREATEST_AGE_RATIO: Final = 1.5
"""Of two moments before the first sample: so exact is the time lag of an older record."""
_FEWEST_MOMENTS: Final = 10


class PastEnds(NamedTuple):
    """The log ends at a moment, None for the end that a log has now; unknown ends are left out."""

    moment: datetime
    log_ends: Mapping[TopicPartition, int | None]


def missed_moments(begin: datetime | None, end: datetime, logs: int) -> list[datetime]:
    """The moments without samples between two samples, oldest first.

    They are as far apart as commits of sampled history, or further apart if there are many logs.
    There are none if they would be too far apart.

    Args:
        begin: the time of the last sample; None before the first one.
        end: the time of the next sample.
        logs: the number of logs.
    """
    most = min(_MOST_MOMENTS, _MOST_ANSWERS // max(logs, 1))
    if begin is None:
        return [*_moments_before(end, most)]
    moments = [*_moments_between(max(begin, end - _OLDEST), end)]
    step = -(-len(moments) // max(most, 1))
    return moments[step - 1 :: step] if step == 1 or most >= _FEWEST_MOMENTS else []


def _moments_between(begin: datetime, end: datetime) -> Iterator[datetime]:
    """The ends of the intervals of history after a time, before another one."""
    sampling, at_ms, end_ms = CommitSampling.at(moment_ms(end)), moment_ms(begin), moment_ms(end)
    while (at_ms := sampling.interval(at_ms)[1]) < end_ms:
        yield end - timedelta(milliseconds=end_ms - at_ms)


def _moments_before(end: datetime, most: int) -> Iterator[datetime]:
    """Moments whose ages grow, up to the oldest one."""
    step, ratio = _YOUNG_STEP, _AGE_RATIO
    if most < _MOST_MOMENTS:
        step, ratio = timedelta(), max((_OLDEST / _YOUNG_STEP) ** (1 / max(most - 2, 1)), ratio)
    if ratio > _GREATEST_AGE_RATIO:
        return
    ages = [_YOUNG_STEP]
    while ages[-1] < _OLDEST:
        is_young = step and ages[-1] < _YOUNG
        ages.append(min(ages[-1] + step if is_young else ages[-1] * ratio, _OLDEST))
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
    begins = _begins(after, past_ends)
    reached: dict[TopicPartition, int] = {}
    for number, (moment, log_ends) in enumerate(past_ends):
        round_of_samples = []
        for sample in after:
            at = TopicPartition(sample.topic, sample.partition)
            if at in before:
                log_end = log_ends.get(at, _UNKNOWN)
                past = _past_offsets(before[at], sample, log_end, reached.get(at))
            elif number < begins[at] or at not in log_ends:
                continue
            else:
                past = _first_offsets(sample, log_ends[at], reached.get(at))
            reached[at] = max(reached.get(at, 0), past.log_end_offset or 0)
            round_of_samples.append(past)
        samples += runs.keep(moment, round_of_samples)
    samples += runs.keep(after_at, after)
    return [sample for sample in samples if sample.sampled_at < after_at]


_UNKNOWN: Final = -1


def _begins(
    after: Collection[LogOffsets], past_ends: Sequence[PastEnds]
) -> Mapping[TopicPartition, int]:
    """The number of the last moment at which each log ended where it starts now, or 0.

    The records of earlier moments are deleted, or the log did not exist.
    """
    starts = {TopicPartition(each.topic, each.partition): each.log_start_offset for each in after}
    begins: dict[TopicPartition, int] = defaultdict(int)
    for number, (_, log_ends) in enumerate(past_ends):
        for at, log_end in log_ends.items():
            if log_end is not None and log_end <= (starts.get(at) or 0):
                begins[at] = number
    return begins


def _first_offsets(after: LogOffsets, log_end: int | None, reached: int | None) -> LogOffsets:
    """The offsets of a log that was not sampled before."""
    newest_end = after.log_end_offset or 0
    end = max(min(newest_end if log_end is None else log_end, newest_end), reached or 0)
    return _offsets(after, after.log_start_offset or 0, end)


def _past_offsets(
    before: LogOffsets, after: LogOffsets, log_end: int | None, reached: int | None
) -> LogOffsets:
    """The offsets of a log between two samples."""
    start, least_end = before.log_start_offset, before.log_end_offset
    newest_end = after.log_end_offset
    if start is None or least_end is None or newest_end is None or log_end == _UNKNOWN:
        return _unavailable(after)
    is_deleted = log_end == after.log_start_offset != start
    if is_deleted or before.topic_id != after.topic_id:
        return _unavailable(after)
    end = max(min(newest_end if log_end is None else log_end, newest_end), reached or 0)
    return before if end <= least_end else _offsets(after, start, end)


def _offsets(after: LogOffsets, start: int, end: int) -> LogOffsets:
    # Open transactions, and the records at the end, are those of no later time.
    return replace(
        after,
        log_start_offset=min(start, end),
        log_end_offset=end,
        last_stable_offset=None,
        end_markers=None,
    )


def _unavailable(after: LogOffsets) -> LogOffsets:
    return LogOffsets(topic=after.topic, partition=after.partition, state=UNAVAILABLE)
