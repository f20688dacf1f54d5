"""Tables of share groups, which tests of lag, status, metrics and the page share."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from coordinator_state.records.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from tests.support.tables.sample_rows import sample
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables, write_rows

GROUP = "sharers"
TOPIC = "orders"


def share_partition(
    start_offset: int,
    delivered: int | None = 0,
    *,
    at: datetime,
    group_id: str = GROUP,
    **fields: Any,
) -> Row:
    """A row of `share_partitions`; `at` is the time of the last acknowledgement."""
    return {
        **{"group_id": group_id, "topic_id": "T", "topic": TOPIC, "partition": 0},
        **{"state_epoch": 1, "leader_epoch": 0, "snapshot_epoch": 0, "state_batches": []},
        **{"start_offset": start_offset, "delivery_complete_count": delivered},
        **{"delivery_timestamp": at, "record_offset": 4},
        **fields,
    }


def create_share_tables(
    folder: Path, now: datetime, partitions: list[Row], *, members: int = 1
) -> str:
    """Share groups as of `now`: their topic got 100 records in the last 100 s, evenly."""
    tables = create_tables(folder)
    write_share_rows(tables, now, partitions, members=members)
    samples = [sample(now - timedelta(seconds=ago), 100 - ago, TOPIC) for ago in (100, 0)]
    own = [
        sample(now - timedelta(seconds=ago), 5, topic)
        for topic in (OFFSETS_TOPIC, SHARE_STATE_TOPIC)
        for ago in (100, 0)
    ]
    write_rows(tables, "log_offsets", samples + own)
    return tables


def write_share_rows(
    tables: str, now: datetime, partitions: list[Row], *, members: int = 1, **rows: list[Row]
) -> None:
    """A micro-batch that replaces the rows of the share groups with these share partitions."""
    groups = sorted({GROUP, *(row["group_id"] for row in partitions)})
    assignment = [{"topic": TOPIC, "partition": 0}]
    of_members = {"group_type": "share", "state": "Stable" if members else "Empty"}
    apply_micro_batch(
        tables,
        progress=[{"next_offset": 5, "high_watermark": 5, "updated_at": now}],
        share_partitions=partitions,
        **{
            "topic_progress": [
                {
                    **{"log_topic": SHARE_STATE_TOPIC, "updated_at": now},
                    **{"next_offset": 5, "high_watermark": 5},
                }
            ],
            "groups": [
                {"group_id": group, "member_count": members, **of_members} for group in groups
            ],
            "group_members": [
                {"group_id": group, "member_id": f"m{number}", "assignment": assignment}
                for group in groups
                for number in range(members)
            ],
            **rows,
        },
    )
