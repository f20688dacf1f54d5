"""The view `expiring_offsets`, also for another retention of offsets than that of the cluster."""

from __future__ import annotations

import pyarrow as pa

from coordinator_state.insight.sql_literal import sql_literal
from streaming.tables.reader import TableReader
from streaming.views.definitions import SELECTS, VIEWS, in_duckdb
from streaming.views.query import asking
from streaming.views.snapshot import Snapshot

_VIEW = "expiring_offsets"


def expiring_offsets(
    reader: TableReader, retention_ms: int | None = None, *, group_id: str | None = None
) -> pa.Table:
    """Every committed offset with its expiry time: the soonest first, those that never expire last.

    Args:
        reader: the snapshot.
        retention_ms: overrides the cluster's `offsets.retention.minutes`.
        group_id: only this group.

    Raises:
        ConfigurationError: the tables cannot be read.
    """
    if retention_ms is None:
        retention_ms = reader.offsets_retention_ms
    relation = f"({in_duckdb(SELECTS[_VIEW], retention_ms)})"
    where = "" if group_id is None else f" WHERE group_id = {sql_literal(group_id)}"
    order = " ORDER BY expires_at NULLS LAST, group_id, topic, partition"
    # No broker deletes offsets that are outside Kafka.
    with asking(Snapshot(reader.of_kafka()).queried) as ask:
        return ask(f"FROM {relation}{where}{order}").cast(VIEWS[_VIEW])
