"""The views on the tables: their columns, and their SELECT if SQL can express them.

`streaming.views.snapshot` computes `group_lag`, `group_status`, `partition_status` and
`expiring_offsets` with rules of the core. Each other view is a SELECT that DuckDB and Spark both
understand: an engine with the tables in its catalog can use it without this program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from streaming.lag.expiring_offsets import EXPIRING_OFFSETS
from streaming.lag.group_lag import GROUP_LAG
from streaming.lag.group_status import GROUP_STATUS, PARTITION_STATUS
from streaming.tables.schemas import ALERTS, ALL_TABLES, TIMESTAMP

SIMPLE_GROUPS: Final = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("group_id", pa.string()),
        ("offsets", pa.int64()),
        ("last_commit_timestamp", TIMESTAMP),
    ]
)
HANGING_TRANSACTIONS: Final = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("group_id", pa.string()),
        ("offsets", pa.int64()),
        ("since", TIMESTAMP),
    ]
)
VIEWS: Final[Mapping[str, pa.Schema]] = {
    "group_lag": GROUP_LAG,
    "group_status": GROUP_STATUS,
    "partition_status": PARTITION_STATUS,
    "expiring_offsets": EXPIRING_OFFSETS,
    "simple_groups": SIMPLE_GROUPS,
    "hanging_transactions": HANGING_TRANSACTIONS,
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
               count(*) AS offsets, min(coalesce(record_timestamp, commit_timestamp)) AS since
        FROM pending_offsets
        GROUP BY log_partition, producer_id, group_id
        HAVING min(coalesce(record_timestamp, commit_timestamp))
             < moment() - INTERVAL '15' MINUTE
    """,
}
"""`moment()` is the time of the snapshot; 15 minutes are `StatusRules.hanging_after_ms`."""
