"""Assigned partitions without a committed offset."""

from __future__ import annotations

from streaming.lag.silent_members import silent_facts


def test_an_unknown_time_of_the_assignment_stays_unknown() -> None:
    row = {"topic": "t", "member_id": "m", "assigned_ms": None, "records": 2, "waiting_ms": None}
    found = silent_facts([{**row, "partition": partition} for partition in (0, 1)])
    assert (found.members, found.partitions, found.records) == (1, 2, 4)
    assert found.assigned_ms is None
    assert found.waiting_ms is None
