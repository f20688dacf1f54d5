"""Transactions with pending offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from coordinator_state.insight.group_facts import OpenTransaction
from coordinator_state.replay.offsets import Outcome
from streaming.tables.reader import Filters, TableReader
from streaming.tables.schemas import OFFSET_COMMITS, PENDING_OFFSETS

Row = dict[str, Any]
ProducerKey = tuple[int, int]
"""The log partition and the producer id."""

_BEFORE: Final = timedelta(days=1)


def open_transactions(
    reader: TableReader, filters: Filters | None = None
) -> list[tuple[OpenTransaction, Sequence[Row]]]:
    """Each open transaction of a group with its rows of `pending_offsets`, oldest first."""
    rows = reader.read(PENDING_OFFSETS.name, filters=filters).to_pylist()
    by_group: dict[tuple[int, int, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_group[row["log_partition"], row["producer_id"], row["group_id"]].append(row)
    firsts = _first_commits(reader, rows)
    found = [
        (_transaction(of_group, firsts[log_partition, producer_id]), of_group)
        for (log_partition, producer_id, _), of_group in by_group.items()
    ]
    return sorted(found, key=lambda pair: pair[0].since)


def _transaction(rows: Sequence[Row], first: Row) -> OpenTransaction:
    newest = max(rows, key=lambda row: row["record_offset"])
    return OpenTransaction(
        log_partition=newest["log_partition"],
        producer_id=newest["producer_id"],
        producer_epoch=max(row["producer_epoch"] for row in rows),
        first_record_offset=first["record_offset"],
        since=_written_at(first),
        offsets=len(rows),
        client_id=newest["client_id"],
        client_host=newest["client_host"],
    )


def _written_at(row: Row) -> datetime:
    at: datetime = row["record_timestamp"] or row["commit_timestamp"]
    return at


def _first_commits(reader: TableReader, rows: Sequence[Row]) -> Mapping[ProducerKey, Row]:
    """Each transaction's first commit in its log partition.

    A commit that a later one of the transaction superseded is in the history only.
    """
    own: dict[ProducerKey, dict[int, Row]] = defaultdict(dict)
    for row in rows:
        own[row["log_partition"], row["producer_id"]][row["record_offset"]] = row
    if rows:
        times = ["record_timestamp", "commit_timestamp"]
        history = reader.read(
            OFFSET_COMMITS.name,
            ["log_partition", "producer_id", "record_offset", "outcome_record_offset", *times],
            [
                ("day", ">=", (min(map(_written_at, rows)) - _BEFORE).date()),
                ("outcome", "=", Outcome.SUPERSEDED.value),
                ("producer_id", "in", sorted({producer_id for _, producer_id in own})),
            ],
        )
        for row in history.sort_by([("record_offset", "descending")]).to_pylist():
            found = own[row["log_partition"], row["producer_id"]]
            if row["outcome_record_offset"] in found:
                found[row["record_offset"]] = row
    return {key: found[min(found)] for key, found in own.items() if found}
