"""Samples of moments at which nothing was sampled, from the log ends that brokers have by time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest

from streaming.kafka.partition_offsets import LogOffsets, TopicPartition
from streaming.lag.past_samples import PastEnds, missed_moments, past_samples

_NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
_AT = TopicPartition("t", 0)
_BEFORE = LogOffsets(
    topic="t",
    partition=0,
    state="present",
    topic_id="T",
    log_start_offset=10,
    log_end_offset=100,
    last_stable_offset=90,
    end_markers=2,
)
_AFTER = replace(_BEFORE, log_end_offset=200, last_stable_offset=200, end_markers=None)


def ago(seconds: float) -> datetime:
    return _NOW - timedelta(seconds=seconds)


def past(
    *log_ends: int | None, before: LogOffsets | None = _BEFORE, after: LogOffsets = _AFTER
) -> list[tuple[float, LogOffsets]]:
    """The samples of moments ten seconds apart: how long ago, and the offsets."""
    ends = [
        PastEnds(ago(10 * (len(log_ends) - number)), {_AT: log_end})
        for number, log_end in enumerate(log_ends)
    ]
    samples = past_samples({} if before is None else {_AT: before}, [after], _NOW, ends)
    return [((_NOW - at).total_seconds(), offsets) for at, offsets in samples]


def ends(samples: list[tuple[float, LogOffsets]]) -> list[tuple[float, int | None]]:
    return [(ago_s, offsets.log_end_offset) for ago_s, offsets in samples]


def test_an_end_is_between_those_of_the_samples_around_it() -> None:
    """Records with wrong timestamps do not move it out of them, or back."""
    samples = past(50, 120, 110, 700, None)
    assert ends(samples) == [(50, 100), (40, 120), (30, 120), (20, 200), (10, 200)]
    # Its open transaction and its markers are still there.
    assert samples[0][1] == _BEFORE
    assert samples[1][1] == replace(
        _AFTER, log_end_offset=120, last_stable_offset=None, end_markers=None
    )


def test_identical_samples_are_kept_once_with_the_last_of_them() -> None:
    assert ends(past(*[150] * 5)) == [(50, 150), (10, 150)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (_BEFORE, replace(_AFTER, topic_id="another")),
        (replace(_BEFORE, state="gone", topic_id=None, log_end_offset=None), _AFTER),
        (_BEFORE, replace(_AFTER, state="unavailable", log_start_offset=None, log_end_offset=None)),
    ],
    ids=["the topic was created again", "the topic did not exist", "the log has no leader"],
)
def test_nothing_is_known_of(before: LogOffsets, after: LogOffsets) -> None:
    ((_, offsets),) = past(120, before=before, after=after)
    assert offsets == LogOffsets(topic="t", partition=0, state="unavailable")


def test_a_log_that_the_brokers_did_not_answer_for_is_unavailable() -> None:
    moments = [PastEnds(ago(20), {}), PastEnds(ago(10), {_AT: 150})]
    samples = past_samples({_AT: _BEFORE}, [_AFTER], _NOW, moments)
    assert [sample.offsets.state for sample in samples] == ["unavailable", "present"]
    assert past_samples({}, [_AFTER], _NOW, moments[:1]) == []


def test_an_end_whose_records_retention_has_deleted_is_not_known() -> None:
    after = replace(_AFTER, log_start_offset=150)
    samples = past(150, 170, after=after)
    assert ends(samples) == [(20, None), (10, 170)]
    assert samples[1][1].log_start_offset == _BEFORE.log_start_offset


def test_before_the_first_sample_the_records_of_the_log_count() -> None:
    """Earlier ones are deleted, or the log did not exist."""
    after = replace(_AFTER, log_start_offset=150)
    samples = past(150, 150, 150, 170, before=None, after=after)
    assert ends(samples) == [(20, 150), (10, 170)]
    assert {offsets.log_start_offset for _, offsets in samples} == {150}


def test_moments_of_a_gap_are_as_far_apart_as_commits_of_history() -> None:
    moments = missed_moments(ago(63), _NOW, 10)
    assert moments == [ago(seconds) for seconds in range(60, 0, -5)]
    hours = missed_moments(ago(30_000), _NOW, 10)
    assert 240 <= len(hours) <= 300
    assert hours[0] - ago(30_000) <= timedelta(minutes=5)
    assert _NOW - hours[-1] < timedelta(seconds=60)


def test_moments_before_the_first_sample_are_close_to_it_and_reach_back_days() -> None:
    moments = missed_moments(None, _NOW, 10)
    assert moments == sorted(moments)
    ages = [(_NOW - moment).total_seconds() for moment in moments]
    assert ages[-1] == 15
    assert ages[0] > 5 * 86_400
    assert all(older - younger < max(15.1, 0.11 * younger) for older, younger in pairwise(ages))


def test_many_logs_have_fewer_moments_before_their_first_sample() -> None:
    moments = missed_moments(None, _NOW, 1_000)
    ages = [(_NOW - moment).total_seconds() for moment in moments]
    assert 90 <= len(ages) <= 100
    assert ages[-1] == 15
    assert ages[0] == 6 * 86_400
    assert all(older < 1.15 * younger for older, younger in pairwise(ages))
    assert missed_moments(None, _NOW, 10_000) == []


def test_many_logs_have_fewer_moments_of_a_gap() -> None:
    assert 5 <= len(missed_moments(ago(86_400), _NOW, 10_000)) <= 10
    assert missed_moments(ago(86_400), _NOW, 20_000) == []
    # A short one has few moments.
    assert len(missed_moments(ago(20), _NOW, 20_000)) == 3
