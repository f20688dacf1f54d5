"""Transactions with pending offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_facts import OpenTransaction
from coordinator_state.replay.offsets import Outcome
from streaming.tables.reader import Filters, TableReader
from streaming.tables.schemas import OFFSET_COMMITS, PENDING_OFFSETS

Row = dict[str, Any]
ProducerKey = tuple[int, int]
"""The log partition and the producer id."""

_BEFORE: Final = timedelta(days=1)
_SUPERSEDED: Final = pa.array([Outcome.SUPERSEDED.value, Outcome.CLEARED.value])


def open_transactions(
    reader: TableReader, filters: Filters | None = None
) -> list[tuple[OpenTransaction, Sequence[Row]]]:
    """Each open transaction of a group with its rows of `pending_offsets`, oldest first."""
    rows = reader.read(PENDING_OFFSETS.name, filters=filters).to_pylist()
    by_group: dict[tuple[int, int, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_group[row["log_partition"], row["producer_id"], row["group_id"]].append(row)
    firsts = _first_record_offsets(reader, rows)
    found = [
        (_transaction(of_group, firsts[log_partition, producer_id]), of_group)
        for (log_partition, producer_id, _), of_group in by_group.items()
    ]
    return sorted(found, key=lambda pair: pair[0].since)


def _transaction(rows: Sequence[Row], first_record_offset: int) -> OpenTransaction:
    newest = max(rows, key=lambda row: row["record_offset"])
    return OpenTransaction(
        log_partition=newest["log_partition"],
        producer_id=newest["producer_id"],
        producer_epoch=max(row["producer_epoch"] for row in rows),
        first_record_offset=first_record_offset,
        since=min(map(_written_at, rows)),
        offsets=len(rows),
        client_id=newest["client_id"],
        client_host=newest["client_host"],
    )


def _written_at(row: Row) -> datetime:
    at: datetime = row["record_timestamp"] or row["commit_timestamp"]
    return at


def _first_record_offsets(reader: TableReader, rows: Sequence[Row]) -> Mapping[ProducerKey, int]:
    """The record offset of each transaction's first commit in its log partition.

    The first commits of a transaction may be superseded, and are then in the history only.
    """
    found: dict[ProducerKey, int] = {}
    for row in rows:
        key = row["log_partition"], row["producer_id"]
        found[key] = min(found.get(key, row["record_offset"]), row["record_offset"])
    if not rows:
        return found
    history = reader.read(
        OFFSET_COMMITS.name,
        ["log_partition", "producer_id", "record_offset", "outcome", "outcome_record_offset"],
        [
            ("day", ">=", (min(map(_written_at, rows)) - _BEFORE).date()),
            ("producer_id", "in", sorted({row["producer_id"] for row in rows})),
        ],
    )
    is_superseded = pc.is_in(history["outcome"], _SUPERSEDED)
    ends = history.filter(pc.invert(is_superseded)).group_by(["log_partition", "producer_id"])
    ended = {
        (row["log_partition"], row["producer_id"]): row["outcome_record_offset_max"]
        for row in ends.aggregate([("outcome_record_offset", "max")]).to_pylist()
    }
    for key, record_offset in _record_offsets(history.filter(is_superseded)):
        if key in found and record_offset > ended.get(key, -1):
            found[key] = min(found[key], record_offset)
    return found


def _record_offsets(history: pa.Table) -> Iterable[tuple[ProducerKey, int]]:
    columns = (history[name].to_pylist() for name in ("log_partition", "producer_id"))
    return zip(zip(*columns, strict=True), history["record_offset"].to_pylist(), strict=True)
