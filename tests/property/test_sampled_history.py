"""Sampled history does not depend on when the log was read: live, or after an outage of `run`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.log.commit_sampling import (
    CommitSampling,
    HistoryResolution,
    Resolution,
)
from coordinator_state.log.kernel import decode_record_set
from coordinator_state.log.log_decoder import OffsetRange
from coordinator_state.log.record_batch_writer import write_record_batch
from tests.support.logs.logs import offset_key, offset_value

_BEGIN_MS = 1_700_000_000_000
_RESOLUTION = HistoryResolution((Resolution(5_000, 60_000), Resolution(20_000, 300_000)), 100_000)
_COMMITS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 9_000), st.integers(0, 40)),
    min_size=1,
    max_size=60,
)
"""The key of a commit, the time since the one before, and its offset."""


@given(
    commits=_COMMITS,
    cuts=st.sets(st.integers(0, 60)),
    delays_ms=st.lists(st.integers(0, 400_000), min_size=61, max_size=61),
)
def test_each_interval_ends_with_the_committed_offsets_of_that_time(
    commits: Sequence[tuple[int, int, int]], cuts: set[int], delays_ms: Sequence[int]
) -> None:
    """Each micro-batch is read some time after its last record."""
    times_ms = [
        _BEGIN_MS + sum(wait for _, wait, _ in commits[: n + 1]) for n in range(len(commits))
    ]
    raw = b"".join(
        write_record_batch(number, [(0, time_ms, offset_key("g", "t", key), offset_value(offset))])
        for number, ((key, _, offset), time_ms) in enumerate(zip(commits, times_ms, strict=True))
    )
    rows: list[dict[str, Any]] = []
    ends_ms: list[int] = []
    bounds = sorted({0, len(commits), *(cut for cut in cuts if cut < len(commits))})
    for start, end in pairwise(bounds):
        sampling = CommitSampling.at(times_ms[end - 1] + delays_ms[end], _RESOLUTION)
        read = decode_record_set(
            raw, OffsetRange(log_partition=0, from_offset=start, to_offset=end), sampling
        )
        rows += read.rows.to_pylist()
        ends_ms += [sampling.interval(time_ms)[1] - 1 for time_ms in times_ms[start:end]]
    for moment_ms in ends_ms:
        expected = {
            key: offset
            for (key, _, offset), time_ms in zip(commits, times_ms, strict=True)
            if time_ms <= moment_ms
        }
        kept = {
            row["partition"]: row["committed_offset"]
            for row in rows
            if row["record_timestamp_ms"] <= moment_ms
        }
        assert kept == expected
