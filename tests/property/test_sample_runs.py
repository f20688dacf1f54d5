"""The samples that are kept tell every moment as all of them do."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from streaming.kafka.partition_offsets import LogOffsets
from streaming.lag.sample_runs import CONFIRM_EVERY, Sample, SampleRuns

START = datetime(2026, 11, 21, tzinfo=timezone.utc)


def offsets(partition: int, log_end_offset: int) -> LogOffsets:
    return LogOffsets(
        topic="t", partition=partition, state="present", log_end_offset=log_end_offset
    )


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


@given(
    ends=st.lists(
        st.tuples(*[st.sampled_from([1, 1, 1, 1, 2, None])] * 2), min_size=1, max_size=40
    ),
    interval_s=st.sampled_from([1, 5, 40]),
)
def test_every_sample_lies_in_a_run_of_kept_ones(
    ends: list[tuple[int | None, ...]], interval_s: int
) -> None:
    """Of its partition. None stands for a round in which that has no committed offset."""
    runs = SampleRuns()
    all_taken: list[Sample] = []
    all_kept: list[Sample] = []
    for number, log_ends in enumerate(ends):
        now = at(number * interval_s)
        present = [offsets(p, end) for p, end in enumerate(log_ends) if end is not None]
        all_taken += [Sample(now, logged) for logged in present]
        all_kept += runs.keep(now, present)
    for partition in (0, 1):
        taken, kept = (
            [sample for sample in samples if sample.offsets.partition == partition]
            for samples in (all_taken, all_kept)
        )
        times = [sample.sampled_at for sample in kept]
        assert times == sorted(set(times))
        assert set(kept) <= set(taken)
        for sample in taken[:-1]:
            before = [earlier for earlier in kept if earlier.sampled_at <= sample.sampled_at]
            assert before[-1].offsets == sample.offsets
        for first, second in itertools.pairwise(taken):
            is_next = second.sampled_at - first.sampled_at == timedelta(seconds=interval_s)
            if is_next and first.offsets != second.offsets:
                assert {first, second} <= set(kept), "both ends of a change are known"
        if taken:
            assert taken[-1].sampled_at - kept[-1].sampled_at < CONFIRM_EVERY


def test_an_unchanged_log_can_be_confirmed_each_time() -> None:
    """`run --available-now` samples before and after the load."""
    runs = SampleRuns(timedelta(0))
    kept = [*runs.keep(at(0), [offsets(0, 5)]), *runs.keep(at(1), [offsets(0, 5)])]
    assert kept == [Sample(at(second), offsets(0, 5)) for second in (0, 1)]


def test_a_sample_of_the_future_confirms_nothing() -> None:
    """The clock was ahead for a while: readers ignore its sample until that time comes."""
    runs = SampleRuns()
    kept = [sample for second in (0, 3600, 5) for sample in runs.keep(at(second), [offsets(0, 1)])]
    assert kept == [Sample(at(second), offsets(0, 1)) for second in (0, 3600, 5)]
