"""The time of day of a process whose machine's clock jumps."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone

import pytest

from streaming.tables.clock import FOLLOWED_AFTER_S, SteadyClock

START = datetime(2026, 11, 28, 12, tzinfo=timezone.utc)
SIX_HOURS_S = 6 * 3600.0


class Machine:
    """A machine whose clock differs from the true time by `ahead_s`."""

    def __init__(self) -> None:
        self.true_s = 0.0
        self.ahead_s = 0.0
        self.clock = SteadyClock(lambda: self.time_at(self.ahead_s), lambda: self.true_s)

    def time_at(self, ahead_s: float) -> datetime:
        return START + timedelta(seconds=self.true_s + ahead_s)

    def difference_s(self, after_s: float) -> float:
        """What the process adds to the true time after some seconds."""
        self.true_s += after_s
        return (self.clock.now() - self.time_at(0)).total_seconds()


@pytest.mark.parametrize("ahead_s", [SIX_HOURS_S, -SIX_HOURS_S, 864_000.0, 2.0])
def test_a_jump_for_a_while_is_not_followed(
    ahead_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine()
    machine.ahead_s = ahead_s
    assert {machine.difference_s(5) for _ in range(100)} == {0}
    machine.ahead_s = 0
    assert machine.difference_s(5) == 0
    assert len(caplog.records) == 1
    assert f"jumped by {ahead_s:+.0f} s" in caplog.text


@pytest.mark.parametrize("ahead_s", [SIX_HOURS_S, -SIX_HOURS_S])
def test_a_clock_that_was_set_is_followed_later(ahead_s: float) -> None:
    machine = Machine()
    machine.ahead_s = ahead_s
    assert machine.difference_s(5) == 0
    assert machine.difference_s(FOLLOWED_AFTER_S - 1) == 0
    assert machine.difference_s(1) == ahead_s
    assert machine.difference_s(5) == ahead_s


def test_small_steps_are_followed() -> None:
    """A time server corrects a clock that is slow."""
    machine = Machine()
    for _ in range(1000):
        machine.ahead_s -= 0.9
        assert machine.difference_s(60) == pytest.approx(machine.ahead_s, abs=1e-3)


def test_two_jumps_are_not_one(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.ahead_s = SIX_HOURS_S
    assert machine.difference_s(1) == 0
    machine.ahead_s = 2 * SIX_HOURS_S
    assert machine.difference_s(FOLLOWED_AFTER_S) == 0
    assert machine.difference_s(FOLLOWED_AFTER_S) == 2 * SIX_HOURS_S
    assert len(caplog.records) == 3


@pytest.mark.parametrize(
    ("ahead_s", "record_ahead_s", "is_followed"),
    [
        *((SIX_HOURS_S, ahead_s, True) for ahead_s in (-1.0, 0.5)),
        *((SIX_HOURS_S, ahead_s, False) for ahead_s in (-SIX_HOURS_S, -SIX_HOURS_S + 60, 1e6)),
        # Records may be old; only a later time than that of the clock says something.
        (-SIX_HOURS_S, 0, False),
    ],
)
def test_a_broker_confirms_a_jump_ahead(
    ahead_s: float, record_ahead_s: float, is_followed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """After the pause of a virtual machine its clock jumps ahead, to the brokers' time."""
    machine = Machine()
    machine.ahead_s = ahead_s
    machine.true_s += 1
    machine.clock.confirm(machine.time_at(ahead_s + record_ahead_s))
    with caplog.at_level(logging.WARNING):
        assert machine.difference_s(0) == (ahead_s if is_followed else 0)
    assert ("following" in caplog.text) == is_followed
