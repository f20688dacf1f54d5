"""The committed offsets that expire soon, for the status of their partitions.

The view `expiring_offsets` has all offsets.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.replay.expiry import expiry
from coordinator_state.replay.groups import Group
from coordinator_state.replay.offsets import Semantics
from streaming.tables.clock import moment_ms
from streaming.tables.filters import of_groups
from streaming.tables.reader import TableReader

_KEY: Final = ("log_partition", "group_id", "topic", "partition")
EXPIRIES: Final = pa.schema(
    [
        *(("log_partition", pa.int32()), ("group_id", pa.string())),
        *(("topic", pa.string()), ("partition", pa.int32())),
        ("expires_at_ms", pa.int64()),
    ]
)
"""The key of an offset, and its expiry time in milliseconds since the epoch."""


def expiries(
    reader: TableReader, until: datetime, *, group_ids: Collection[str] | None = None
) -> pa.Table:
    """Every offset that expires by `until`, and some that expire later (`EXPIRIES`)."""
    retention_ms = reader.offsets_retention_ms
    # No broker deletes offsets that are outside Kafka.
    reader = reader.of_kafka()
    wanted = of_groups(group_ids)
    columns = [*_KEY, "commit_timestamp", "expire_timestamp"]
    offsets = reader.read("group_offsets", columns, wanted)
    # The retention begins at the commit or later.
    latest = pa.scalar(moment_ms(until) - retention_ms, pa.int64()).cast(pa.timestamp("ms", "UTC"))
    may = pc.less_equal(offsets["commit_timestamp"], latest)
    offsets = offsets.filter(pc.or_(may, pc.is_valid(offsets["expire_timestamp"])))
    if not offsets.num_rows:
        return EXPIRIES.empty_table()
    wanted = of_groups(pc.unique(offsets["group_id"]).to_pylist())
    groups = {
        (row["log_partition"], row["group_id"]): _group(row)
        for row in reader.read("groups", None, wanted).to_pylist()
    }
    pending = {
        tuple(row[name] for name in _KEY)
        for row in reader.read("pending_offsets", [*_KEY], wanted).to_pylist()
    }
    rows = []
    for row in offsets.to_pylist():
        key = tuple(row[name] for name in _KEY)
        expiration = expiry(
            groups.get((row["log_partition"], row["group_id"])),
            row["topic"],
            commit_timestamp_ms=moment_ms(row["commit_timestamp"]),
            expire_timestamp_ms=_optional_ms(row["expire_timestamp"]),
            is_pending=key in pending,
            retention_ms=retention_ms,
            semantics=Semantics(reader.semantics),
        )
        if expiration.at_ms is not None:
            rows.append((*key, expiration.at_ms))
    columns_of_rows = zip(*rows, strict=True) if rows else ([] for _ in EXPIRIES)
    return pa.table([pa.array(column) for column in columns_of_rows], schema=EXPIRIES)


def _group(row: dict[str, Any]) -> Group:
    return Group(
        group_id=row["group_id"],
        group_type=row["group_type"],
        state=row["state"],
        protocol_type=row["protocol_type"],
        state_timestamp_ms=_optional_ms(row["state_timestamp"]),
        subscribed_topics=row["subscribed_topics"],
    )


def _optional_ms(time: datetime | None) -> int | None:
    return None if time is None else moment_ms(time)
