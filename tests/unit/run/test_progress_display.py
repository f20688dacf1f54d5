"""The progress of a run on stderr: its line, and how often it is shown."""

from __future__ import annotations

import pytest

from streaming.engine.progress import ProgressEvent
from streaming.run.progress_display import (
    PLAIN_INTERVAL_S,
    LiveLine,
    ProgressDisplay,
    progress_line,
)
from streaming.run.stages import enter_stage, newest_stage
from tests.support.eventually import Eventually


def event(*, records: int = 0, next_offset: int = 0, end: int = 0) -> ProgressEvent:
    return ProgressEvent(
        batch_id=0,
        records_read=records,
        offsets_read=records,
        records_read_total=1_234_567,
        records_quarantined=0,
        records_unaccounted_total=0,
        next_offset_total=next_offset,
        high_watermark_total=end,
        duration_ms=1_000,
        states={0: "current", 1: "loading", 2: "loading"},
    )


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("left", "time_left"),
    [(0, ""), (30, ", 3 s left"), (900, ", 1 min 30 s left"), (75_000, ", 2 h 5 min left")],
)
def test_the_line_tells_records_rate_time_left_and_states(left: int, time_left: str) -> None:
    line = progress_line(event(end=left), records_per_s=54_321.4, offsets_per_s=10)

    assert line == (
        f"1,234,567 records read, 54,321 records/s{time_left}; "
        "log partitions: 1 current, 2 loading, 0 waiting"
    )


def test_the_log_may_end_before_the_next_offset() -> None:
    # A high watermark is as planned; a leader that changed may be behind it for a moment.
    assert event(next_offset=5, end=3).offsets_left == 0


def test_plain_lines_come_every_few_seconds_with_the_rate_of_the_last_half_minute() -> None:
    clock, lines = Clock(), list[str]()
    with ProgressDisplay(is_terminal=False, clock=clock, write=lines.append) as display:
        for second in range(1, 101):
            clock.now = float(second)
            # A slow start must not weigh on the rate for ever.
            display(event(records=10 if second < 50 else 1_000))

    rates = [line.split(", ")[1].partition(";")[0] for line in lines]
    assert len(lines) == 20
    assert (rates[0], rates[-1]) == ("10 records/s", "1,000 records/s")


def test_on_a_terminal_one_line_is_kept_up_to_date(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with ProgressDisplay(is_terminal=True) as display:
        display(event(records=5))
    shown = capsys.readouterr()

    assert shown.out == ""
    assert "1,234,567 records read, 5 records/s" in shown.err


def test_the_stage_of_a_start_is_shown_until_a_micro_batch_has_ended(
    eventually: Eventually,
) -> None:
    lines = list[str]()
    with ProgressDisplay(is_terminal=False, write=lines.append, stage_interval_s=0.01) as display:
        eventually(lambda: any(line.startswith("starting (") for line in lines))
        enter_stage("reading", lambda: " 5 records")
        eventually(lambda: any(line.startswith("reading 5 records (") for line in lines))
        display(event(records=5))
        display._stages.join()
        # The line of progress does not wait until the last line about a stage is 5 s old.
        assert any("1,234,567 records read, " in line for line in lines)
    assert newest_stage() is None


def test_a_plain_line_comes_every_five_seconds_and_the_first_one_after_a_while() -> None:
    assert ProgressDisplay(is_terminal=False)._stage_interval_s == PLAIN_INTERVAL_S == 5.0
    clock, lines = Clock(), list[str]()
    with LiveLine(is_terminal=False, clock=clock, write=lines.append, first_after_s=3) as line:
        for second in range(20):
            clock.now = float(second)
            line.show(f"after {second} s")

    assert lines == ["after 3 s", "after 8 s", "after 13 s", "after 18 s"]
