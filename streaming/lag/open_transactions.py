"""Transactions with pending offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from coordinator_state.apply.columns import TIMESTAMP
from coordinator_state.insight.group_facts import OpenTransaction
from coordinator_state.insight.transaction_owner import (
    ProducerState,
    TransactionOwner,
    transaction_owner,
)
from coordinator_state.records.internal_topics import TRANSACTION_STATE_TOPIC
from coordinator_state.replay.offsets import Outcome
from streaming.lag.topic_loads import is_loaded
from streaming.tables.reader import Filters, TableReader
from streaming.tables.schemas import (
    OFFSET_COMMITS,
    PENDING_OFFSETS,
    TRANSACTIONS,
)

Row = dict[str, Any]
ProducerKey = tuple[int, int]
"""The log partition and the producer id."""


@dataclass(frozen=True, slots=True)
class ProducerStates:
    """The rows of `transactions` by producer id; None if the tables do not have all of them."""

    by_producer_id: Mapping[int, ProducerState] | None

    @classmethod
    def read(cls, reader: TableReader, producer_ids: Collection[int]) -> ProducerStates:
        """Read those of some producers."""
        if not producer_ids or not is_loaded(reader, TRANSACTION_STATE_TOPIC):
            return cls(None)
        columns = [one.name for one in fields(ProducerState)]
        found = reader.read(
            TRANSACTIONS.name,
            ["producer_id", *columns],
            [("producer_id", "in", sorted(producer_ids))],
        )
        return cls({row.pop("producer_id"): ProducerState(**row) for row in found.to_pylist()})

    def owner(
        self, producer_id: int, last_commit_at: datetime, at: datetime
    ) -> TransactionOwner | None:
        """The owner of pending offsets of a producer, see `transaction_owner`; None if unknown."""
        if self.by_producer_id is None:
            return None
        return transaction_owner(self.by_producer_id.get(producer_id), last_commit_at, at)


_OWNER_COLUMNS: Final = (
    ("transactional_id", pa.string()),
    ("transaction_state", pa.string()),
    ("abort_timestamp", TIMESTAMP),
    ("is_marker_lost", pa.bool_()),
)


def with_owners(reader: TableReader, pending: pa.Table) -> pa.Table:
    """Rows of `pending_offsets` with the owner of their transaction; null if it is unknown."""
    rows = pending.to_pylist()
    producers = ProducerStates.read(reader, {row["producer_id"] for row in rows})
    newest: dict[ProducerKey, datetime] = {}
    for row in rows:
        key = row["log_partition"], row["producer_id"]
        newest[key] = max(newest.get(key, _written_at(row)), _written_at(row))
    owners = [
        producers.owner(
            row["producer_id"], newest[row["log_partition"], row["producer_id"]], reader.moment
        )
        for row in rows
    ]
    for name, of_type in _OWNER_COLUMNS:
        attribute = "state" if name == "transaction_state" else name
        values = [owner and getattr(owner, attribute) for owner in owners]
        pending = pending.append_column(name, pa.array(values, of_type))
    return pending


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
    producers = ProducerStates.read(reader, {producer_id for _, producer_id, _ in by_group})
    found = [
        (
            _transaction(of_group, firsts[log_partition, producer_id], producers, reader.moment),
            of_group,
        )
        for (log_partition, producer_id, _), of_group in by_group.items()
    ]
    return sorted(found, key=lambda pair: pair[0].since)


def _transaction(
    rows: Sequence[Row], first: Row, producers: ProducerStates, at: datetime
) -> OpenTransaction:
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
        owner=producers.owner(newest["producer_id"], _written_at(newest), at),
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
