"""The expiry time of each committed offset: the view `expiring_offsets`."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import TIMESTAMP, nullable, schema_of
from coordinator_state.replay.expiry import expiry
from coordinator_state.replay.groups import Group
from coordinator_state.replay.offsets import Semantics
from streaming.clock import moment_ms
from streaming.lag.rows import ExpiringOffsetRow
from streaming.tables.filters import of_groups
from streaming.tables.reader import TableReader

EXPIRING_OFFSETS = nullable(schema_of(ExpiringOffsetRow))

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_KEY = ("log_partition", "group_id", "topic", "partition")


def expiring_offsets(
    reader: TableReader,
    retention_ms: int | None = None,
    *,
    group_ids: Collection[str] | None = None,
    until: datetime | None = None,
) -> pa.Table:
    """Every committed offset with its expiry time: the soonest first, those that never expire last.

    Args:
        reader: the snapshot.
        retention_ms: overrides the cluster's `offsets.retention.minutes`.
        group_ids: only these groups.
        until: skip offsets that cannot expire before this time.
    """
    if retention_ms is None:
        retention_ms = reader.offsets_retention_ms
    # No broker deletes offsets that are outside Kafka.
    reader = reader.of_kafka()
    wanted = of_groups(group_ids)
    offsets = reader.read("group_offsets", None, wanted)
    if until is not None:
        # The retention begins at the commit or later.
        latest = until - timedelta(milliseconds=retention_ms)
        may = pc.less_equal(offsets["commit_timestamp"], pa.scalar(latest, TIMESTAMP))
        offsets = offsets.filter(pc.or_(may, pc.is_valid(offsets["expire_timestamp"])))
    if not offsets.num_rows:
        return EXPIRING_OFFSETS.empty_table()
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
        group = groups.get((row["log_partition"], row["group_id"]))
        expiration = expiry(
            group,
            row["topic"],
            commit_timestamp_ms=moment_ms(row["commit_timestamp"]),
            expire_timestamp_ms=_optional_ms(row["expire_timestamp"]),
            is_pending=tuple(row[name] for name in _KEY) in pending,
            retention_ms=retention_ms,
            semantics=Semantics(reader.semantics),
        )
        rows.append(
            {
                **{name: row[name] for name in EXPIRING_OFFSETS.names if name in row},
                "group_type": None if group is None else group.group_type,
                "state": None if group is None else group.state,
                "expires_at": None if expiration.at_ms is None else _time(expiration.at_ms),
                "reason": expiration.reason.value,
            }
        )
    return pa.Table.from_pylist(rows, EXPIRING_OFFSETS).sort_by(
        [(name, "ascending") for name in ("expires_at", *_KEY[1:])]
    )


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


def _time(ms: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return datetime.max.replace(tzinfo=timezone.utc, microsecond=999_000)
