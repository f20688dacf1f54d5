"""Transactions with pending offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta, timezone
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
from streaming.lag.topic_loads import topic_loads
from streaming.tables.filters import Filters
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    OFFSET_COMMITS,
    PENDING_OFFSETS,
    STATE_CURRENT,
    TRANSACTIONS,
)

Row = dict[str, Any]
ProducerKey = tuple[int, int]
"""The log partition and the producer id."""
PendingKey = tuple[int, str, int]
"""The log partition, the group and the producer id."""

_NEVER: Final = datetime.min.replace(tzinfo=timezone.utc)
_OWNER_COLUMNS: Final = (
    ("transactional_id", pa.string()),
    ("transaction_state", pa.string()),
    ("abort_timestamp", TIMESTAMP),
    ("is_marker_lost", pa.bool_()),
    ("is_two_phase_commit", pa.bool_()),
)


def pending_owners(
    reader: TableReader, producer_ids: Collection[int]
) -> Mapping[PendingKey, TransactionOwner]:
    """The owners of the pending offsets of some producers.

    Empty if `__transaction_state` is not followed or not loaded.
    """
    load = topic_loads(reader).get(TRANSACTION_STATE_TOPIC) if producer_ids else None
    if load is None or not load.is_loaded:
        return {}
    of_producers = [("producer_id", "in", sorted(producer_ids))]
    columns = ["log_partition", "group_id", "producer_id", "record_timestamp", "commit_timestamp"]
    rows = reader.read(PENDING_OFFSETS.name, columns, of_producers).to_pylist()
    newest: dict[ProducerKey, datetime] = {}
    for row in rows:
        # The next marker of the producer ends all of its offsets in the log partition.
        key = row["log_partition"], row["producer_id"]
        newest[key] = max(newest.get(key, _written_at(row)), _written_at(row))
    names = [field.name for field in fields(ProducerState)]
    states = reader.read(TRANSACTIONS.name, ["producer_id", *names], of_producers).to_pylist()
    # An expanded topic has orphans in earlier log partitions.
    states.sort(key=lambda row: row["last_update_timestamp"] or _NEVER)
    producers = {row.pop("producer_id"): ProducerState(**row) for row in states}
    owners = {
        (log_partition, producer_id): transaction_owner(
            producers.get(producer_id),
            at,
            reader.moment + reader.clock_skew,
            is_at_end=load.is_read_whole and _is_at_end(reader, log_partition),
        )
        for (log_partition, producer_id), at in newest.items()
    }
    return {
        (row["log_partition"], row["group_id"], row["producer_id"]): owners[
            row["log_partition"], row["producer_id"]
        ]
        for row in rows
    }


def with_owners(reader: TableReader, pending: pa.Table) -> pa.Table:
    """Rows of `pending_offsets` with the owner of their transaction; null if it is unknown."""
    rows = pending.select(["log_partition", "group_id", "producer_id"]).to_pylist()
    owner_by_key = pending_owners(reader, {row["producer_id"] for row in rows})
    owners = [owner_by_key.get(tuple(row.values())) for row in rows]
    for name, of_type in _OWNER_COLUMNS:
        attribute = "state" if name == "transaction_state" else name
        values = [owner and getattr(owner, attribute) for owner in owners]
        pending = pending.append_column(name, pa.array(values, of_type))
    return pending


def _is_at_end(reader: TableReader, log_partition: int) -> bool:
    """Whether the tables have a log partition of `__consumer_offsets` up to its end."""
    load = reader.load_states.get(log_partition)
    return (
        load is not None and load.state == STATE_CURRENT and load.next_offset >= load.high_watermark
    )


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
    owners = pending_owners(reader, {producer_id for _, producer_id, _ in by_group})
    transactions = [
        (
            _transaction(
                of_group,
                firsts[log_partition, producer_id],
                owners.get((log_partition, group_id, producer_id)),
            ),
            of_group,
        )
        for (log_partition, producer_id, group_id), of_group in by_group.items()
    ]
    return sorted(transactions, key=lambda pair: pair[0].since)


def _transaction(
    rows: Sequence[Row], first: Row, owner: TransactionOwner | None
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
        owner=owner,
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
            commits = own[row["log_partition"], row["producer_id"]]
            if row["outcome_record_offset"] in commits:
                commits[row["record_offset"]] = row
    return {key: commits[min(commits)] for key, commits in own.items() if commits}
