"""Tables of topics that groups read in whole, in part, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from tests.support.tables.sample_rows import member_row, offset_row, sample
from tests.support.tables.tables_folder import apply_micro_batch, create_tables, write_rows

READ, PARTLY, SILENT, UNREAD = "orders", "returns", "refunds", "audit"
"""All partitions have a reader; two have none; a member commits nothing; nobody reads it."""
SLOW, QUICK, MEMBER = "billing", "search", "assigned"
"""The groups of `READ`, and the group of `SILENT`."""
OWNER = "billing-consumer-1"
_LOGS: Mapping[str, int] = {READ: 3, PARTLY: 3, SILENT: 1, UNREAD: 2}


def create_topic_tables(in_folder: Path, now: datetime, *, with_unread: bool = True) -> str:
    """Groups that read four topics at `now`.

    `SLOW` is 600 behind in each partition of `READ`, where 10 records a second are produced to
    partition 0, and 5 to the others. Partition 1 of `PARTLY` has no sample. `with_unread` is as
    `run --lag-topics all`.
    """
    tables = create_tables(in_folder)
    _commit(tables, now)
    logs = [
        (topic, partition)
        for topic, partitions in _LOGS.items()
        for partition in range(partitions)
        if with_unread or topic in (READ, SILENT) or (topic, partition) == (PARTLY, 0)
    ]
    samples = [
        sample(now - timedelta(seconds=ago), 1_000 - per_s * ago, topic, partition, topic_id=topic)
        for topic, partition in logs
        if (topic, partition) != (PARTLY, 1)
        for per_s in (10 if partition == 0 else 5,)
        for ago in (90, 60, 0)
    ]
    own = [sample(now, 40, "__consumer_offsets"), sample(now, 9, "__transaction_state")]
    write_rows(tables, "log_offsets", samples + own)
    return tables


def _commit(tables: str, now: datetime) -> None:
    apply_micro_batch(
        tables,
        progress=[{"updated_at": now, "next_offset": 40, "high_watermark": 40}],
        groups=[
            {"group_id": group, "state": "Stable", "member_count": 1}
            for group in (SLOW, QUICK, MEMBER)
        ],
        group_members=[
            member_row(SLOW, OWNER, READ, range(3), client_id="billing-consumer"),
            member_row(MEMBER, "assigned-1", SILENT, range(1), client_id="assigned"),
        ],
        group_offsets=[
            *(offset_row(SLOW, 400, now, READ, partition) for partition in range(3)),
            *(offset_row(QUICK, 1_000, now, READ, partition) for partition in range(2)),
            offset_row(QUICK, 1_000, now, PARTLY),
        ],
    )
