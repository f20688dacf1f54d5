"""Tables with groups to plan for: a past snapshot, samples of the logs, and leftovers."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from tests.support.tables import sample_rows
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables, write_rows

MINUTE = timedelta(minutes=1)


def offset(
    group: str, partition: int, committed: int, at: datetime, topic: str = "orders", **more: Any
) -> Row:
    """A committed offset."""
    return sample_rows.offset_row(group, committed, at, topic, partition, **more)


def sample(partition: int, at: datetime, start: int | None, end: int | None, **more: Any) -> Row:
    """A sample of a log of `orders`; a log that is not present has no offsets."""
    defaults: Row = {"topic": "orders", "partition": partition, "log_start_offset": start}
    return sample_rows.sample(at, end, **defaults | more)


def create_planned_tables(folder: Path) -> tuple[str, datetime]:
    """Tables with two snapshots, and a time between the two.

    The group `payments` was at 100 in partition 0 and at 10 in partition 1. Then it went on, and
    the first 40 records of partition 1 were deleted. Partition 2 got its first commit, partition 3
    is not sampled, and the topic `old` is deleted.
    """
    now = datetime.now(timezone.utc)
    tables = create_tables(folder)
    group = {"group_id": "payments", "protocol_type": "consumer", "record_offset": 1}
    apply_micro_batch(
        tables,
        progress=[{"updated_at": now - 10 * MINUTE}],
        groups=[group, {"group_id": "deleted"}],
        group_offsets=[
            offset("payments", 0, 100, now - 20 * MINUTE),
            offset("payments", 1, 10, now - 20 * MINUTE),
            offset("deleted", 0, 55, now - 20 * MINUTE),
        ],
    )
    between = datetime.now(timezone.utc)
    apply_micro_batch(
        tables,
        progress=[{"updated_at": datetime.now(timezone.utc)}],
        groups=[group],
        group_offsets=[
            offset("payments", 0, 300, now - 2 * MINUTE),
            offset("payments", 1, 60, now - 2 * MINUTE),
            offset("payments", 2, 5, now - 2 * MINUTE),
            offset("payments", 3, 8, now - 2 * MINUTE),
            offset("payments", 0, 8, now - 2 * MINUTE, topic="old"),
        ],
    )
    write_rows(
        tables,
        "log_offsets",
        [
            sample(0, now - 30 * MINUTE, 0, 80),
            sample(0, now - 20 * MINUTE, 0, 120),
            sample(0, now - MINUTE, 0, 310),
            sample(1, now - 20 * MINUTE, 0, 20),
            sample(1, now - MINUTE, 40, 70),
            sample(2, now - MINUTE, 0, 9),
            sample(0, now - 20 * MINUTE, 0, 9, topic="old"),
            sample(0, now - MINUTE, None, None, topic="old", state="gone"),
        ],
    )
    return tables, between
