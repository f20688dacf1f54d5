"""The times of status changes on the page of a group."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from streaming.dashboard.group import status_changes
from streaming.lag.past_statuses import GroupStatus

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
STEP = timedelta(seconds=160)


class Statuses:
    """A group that does not exist at first, cannot be read for a while, and stops at last."""

    def status(self, moment: datetime) -> GroupStatus:
        after_s = (moment - START) / timedelta(seconds=1)
        if after_s < 100:
            return GroupStatus(moment, None, "the group did not exist")
        if 400 <= after_s < 700:
            return GroupStatus(moment, None, "a log partition was reloaded", is_known=False)
        return GroupStatus(moment, "OK" if after_s < 1_000 else "STOP", "")


def test_changes_are_close_to_their_time_and_none_is_told_of_unknown_moments() -> None:
    past = Statuses()
    coarse = [past.status(START + number * STEP) for number in range(9)]
    found = [
        (before.status, after.status, (after.at - START).total_seconds())
        for before, after in status_changes(past, coarse)
    ]
    # A sixteenth of the step is 10 s.
    assert found == [(None, "OK", 100.0), ("OK", "STOP", 1_000.0)]
