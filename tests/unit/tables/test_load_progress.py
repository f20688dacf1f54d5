"""How far the load is, and that nothing is passed over."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from coordinator_state.apply.counts import RecordCounts
from coordinator_state.replay.offsets import Semantics
from streaming.errors import ConfigurationError
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import STATE_CURRENT, STATE_LOADING
from streaming.tables.topic_progress import Progress
from tests.support.logs.log_rows import progress_row

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)


def _progress(next_offset: int) -> LoadProgress:
    progress = LoadProgress(cluster_id="c", topic_id="t", semantics=Semantics.COORDINATOR)
    progress.rows[7] = Progress(next_offset=next_offset)
    return progress


@pytest.mark.parametrize(("log_partition", "from_offset"), [(7, 0), (7, 9), (7, 10), (8, 1_000)])
def test_what_was_applied_may_come_again_and_a_log_may_begin_anywhere(
    log_partition: int, from_offset: int
) -> None:
    row = {"log_partition": log_partition, "from_offset": from_offset}
    _progress(10).require_no_gap([row])


def test_records_that_nobody_read_are_not_passed_over() -> None:
    with pytest.raises(
        ConfigurationError, match=r"log partition 7: .* continue at record offset 10,"
    ):
        _progress(10).require_no_gap([{"log_partition": 7, "from_offset": 11}])


def _advanced(
    row: Progress, record_offset: int, high_watermark: int, entries: str | None = None
) -> Progress:
    """The row after a micro-batch whose records are all in the tables."""
    progress = _progress(0)
    progress.rows[7] = row
    report = progress_row(0, record_offset, high_watermark=high_watermark)
    report |= {"log_epoch_entries": entries}
    progress.advance([report], RecordCounts(), newest_timestamps={}, read_at=NOW)
    return progress.rows[7]


@pytest.mark.parametrize(
    ("high_watermark", "expected", "state"),
    [(6, 10, STATE_CURRENT), (10, 10, STATE_CURRENT), (12, 12, STATE_LOADING)],
)
def test_records_that_come_again_move_nothing_back(
    high_watermark: int, expected: int, state: str
) -> None:
    row = _advanced(Progress(next_offset=10), 6, high_watermark)
    assert (row.next_offset, row.high_watermark, row.state) == (10, expected, state)


def test_the_leader_epochs_are_those_of_the_records_below_the_next_offset() -> None:
    row = _advanced(Progress(epoch_entries="[[4, 0]]"), 10, 10, "[[4, 0], [5, 8]]")
    assert row.epoch_entries == "[[4, 0], [5, 8]]"
    # Records that come again end in an earlier epoch.
    row = _advanced(row, 6, 10, "[[4, 0]]")
    assert row.epoch_entries == "[[4, 0], [5, 8]]"
    # Of later records they are not known.
    assert _advanced(row, 12, 12).epoch_entries is None


def test_a_reload_reads_records_before_the_next_offset_again() -> None:
    row = Progress(next_offset=10, reload_reason="because")
    row = _advanced(row, 6, 12)
    assert (row.state, row.reloaded_at) == (STATE_LOADING, None)
    row = _advanced(row, 12, 12)
    assert (row.next_offset, row.state, row.reloaded_at) == (12, STATE_CURRENT, NOW)


def test_the_clocks_are_compared_by_records_that_were_read_right_after_their_write() -> None:
    """The brokers' clock is three minutes ahead; one log partition is quiet."""
    ahead = timedelta(minutes=3)
    progress = _progress(0)
    progress.rows = {p: Progress(has_caught_up=True) for p in (0, 1)}

    def micro_batch(seconds: int, *ages_s: int, behind: int = 0) -> int | None:
        at = NOW + timedelta(seconds=seconds)
        written = {p: at + ahead - timedelta(seconds=age_s) for p, age_s in enumerate(ages_s)}
        reports = [
            progress_row(0, 10, log_partition=p, high_watermark=10 + behind) for p in written
        ]
        progress.advance(reports, RecordCounts(), newest_timestamps=written, read_at=at)
        return progress.clock_skew_ms

    # It is not known how long the records of the first one have waited.
    assert micro_batch(0, 0) is None
    assert micro_batch(1, 1, 600) == 179_000
    # After a stall of the brokers, and while there is more to read.
    assert micro_batch(700, 650, 690) == 179_000
    assert micro_batch(701, 300, behind=5) == 179_000
    # A client wrote a wrong time.
    assert micro_batch(702, -4_000) == 179_000
    assert [micro_batch(second, 0) for second in (703, 704)] == [180_000, 180_000]
