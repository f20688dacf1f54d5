"""The views on the tables: their columns, and their SELECT if SQL can express them.

`streaming.views.snapshot` computes `group_lag`, `group_status`, `partition_status` and
`expiring_offsets` with rules of the core. Each other view is a SELECT that DuckDB and Spark both
understand: an engine with the tables in its catalog can use it without this program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

import pyarrow as pa

from coordinator_state.apply.columns import Int32, nullable, schema_of
from streaming.lag.expiring_offsets import EXPIRING_OFFSETS
from streaming.lag.group_lag import GROUP_LAG
from streaming.lag.group_status import GROUP_STATUS, PARTITION_STATUS
from streaming.tables.schemas import ALERTS, ALL_TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleGroupRow:
    """A group known only from its offsets: its consumers call `assign()` and never join."""

    log_partition: Int32
    group_id: str
    offsets: int
    last_commit_timestamp: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransactionRow:
    """A transaction that keeps offsets of a group pending for longer than any transaction may."""

    log_partition: Int32
    producer_id: int
    producer_epoch: Annotated[int, pa.int16()]
    group_id: str
    client_id: str | None
    client_host: str | None
    offsets: int
    since: datetime


VIEWS: Final[Mapping[str, pa.Schema]] = {
    "group_lag": GROUP_LAG,
    "group_status": GROUP_STATUS,
    "partition_status": PARTITION_STATUS,
    "expiring_offsets": EXPIRING_OFFSETS,
    "simple_groups": nullable(schema_of(SimpleGroupRow)),
    "hanging_transactions": nullable(schema_of(HangingTransactionRow)),
}
SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    **{table.name: table.schema for table in (*ALL_TABLES, ALERTS)},
    **VIEWS,
}
"""The columns of every table and view by name."""

SELECTS: Final[Mapping[str, str]] = {
    "simple_groups": """
        SELECT g.log_partition, g.group_id, count(o.topic) AS offsets,
               max(o.commit_timestamp) AS last_commit_timestamp
        FROM groups AS g
        LEFT JOIN group_offsets AS o
          ON o.log_partition = g.log_partition AND o.group_id = g.group_id
        WHERE g.record_offset = -1
        GROUP BY g.log_partition, g.group_id
    """,
    "hanging_transactions": """
        SELECT log_partition, producer_id, max(producer_epoch) AS producer_epoch, group_id,
               max_by(client_id, record_offset) AS client_id,
               max_by(client_host, record_offset) AS client_host,
               count(*) AS offsets, min(coalesce(record_timestamp, commit_timestamp)) AS since
        FROM pending_offsets
        GROUP BY log_partition, producer_id, group_id
        HAVING min(coalesce(record_timestamp, commit_timestamp))
             < moment() - INTERVAL '15' MINUTE
    """,
}
"""`moment()` is the time of the snapshot; 15 minutes are `StatusRules.hanging_after_ms`."""
