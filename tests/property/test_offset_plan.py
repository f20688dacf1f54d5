"""Planned offsets: inside the log, and every record between the two offsets is accounted for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.insight.offset_plan import LogBounds, planned_offset
from coordinator_state.replay.offsets import OffsetKey

OFFSETS = st.integers(0, 50)


@st.composite
def logs(draw: st.DrawFn) -> LogBounds:
    return LogBounds(*sorted((draw(OFFSETS), draw(OFFSETS))))


@given(from_offset=OFFSETS, wanted=OFFSETS, log=logs())
def test_every_record_is_counted_once(from_offset: int, wanted: int, log: LogBounds) -> None:
    kept = range(log.log_start_offset, log.log_end_offset)
    planned = planned_offset(
        OffsetKey("g", "t", 0), from_offset=from_offset, wanted_offset=wanted, log=log
    )
    to_offset = planned.to_offset
    assert to_offset is not None
    # As Kafka's tool does it.
    assert to_offset == max(log.log_start_offset, min(wanted, log.log_end_offset))
    read = set(range(from_offset, log.log_end_offset)) & set(kept)
    will_read = set(range(to_offset, log.log_end_offset)) & set(kept)
    assert planned.records_replayed == len(will_read - read)
    assert planned.records_skipped == len(read - will_read)
    assert planned.records_deleted == len(set(range(wanted, log.log_start_offset)))
