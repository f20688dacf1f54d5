"""Transactions that keep offsets of groups pending, were aborted, or took long."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pydantic import Field

from coordinator_state.apply.rows import PendingOffsetRow
from coordinator_state.insight.group_events import EventName
from coordinator_state.replay.offsets import Outcome
from streaming.api.answers import Answer, Page, Part, RecordId, columns, record_id
from streaming.api.cursors import page_of_rows
from streaming.api.events import FoldedEvent, folded_list
from streaming.api.operation import (
    ClusterQuery,
    Clusters,
    Limit,
    OptionalGroup,
    PagedQuery,
    Shown,
    Within,
    operation,
)
from streaming.served.snapshot import Row
from streaming.tables.schemas import OFFSET_COMMITS
from streaming.views.definitions import OpenTransactionRow

_MOST_OFFSETS: Final = 1_000
_KEY: Final = ("log_partition", "producer_id", "group_id")


@columns(
    *("pending_offsets", PendingOffsetRow, "topic", "partition", "committed_offset"),
    "record_offset",
)
class PendingOffset(Part):
    """An offset that takes effect if its transaction is committed."""


@columns("open_transactions", OpenTransactionRow)
class Transaction(Part):
    """An open transaction of a group: a row of `open_transactions`, with further fields."""

    first_record_offset: int
    """Record offset of its first pending commit."""
    age_ms: int
    """Time since its first pending commit."""
    is_hanging: bool
    """Whether the transaction is open for more than 15 minutes."""
    is_marker_lost: bool
    offsets: list[PendingOffset]
    """Pending offsets of the transaction, at most 1,000, by topic and partition."""
    offset_count: int
    """Number of all pending offsets of the transaction."""
    commands: list[str]
    """Commands of Kafka's tools that find and end the transaction."""


class TransactionPage(Page[Transaction]):
    """A page of open transactions, oldest first."""


class AbortedCommits(Part):
    """Commits of a group that were aborted with the transactions of one producer."""

    group_id: str
    """Group id."""
    producer_id: int
    """Producer of the transactions."""
    commits: int
    """Number of aborted commits."""
    first_at: datetime | None
    """Time of the first of them."""
    last_at: datetime | None
    """Time of the last of them."""
    record_ids: list[RecordId]
    """The first and the last of these commits."""


class Transactions(Answer):
    """Transactions with committed offsets."""

    since: datetime
    """Start of the period of `aborted` and `ended_late`."""
    open: list[Transaction]
    """Transactions that are open at `at`, oldest first."""
    more_open: int
    """Number of open transactions that are not in the list."""
    aborted: list[AbortedCommits]
    """Aborted commits, greatest number first."""
    more_aborted: int
    """Number of rows of aborted commits that are not in the list."""
    ended_late: list[FoldedEvent]
    """Transactions that ended after more than a minute, with their outcomes."""
    more_ended_late: int
    """Number of their events that are not in the list."""


class TransactionsQuery(PagedQuery):
    """The parameters of the list of open transactions."""

    group: list[str] = Field(default_factory=list)
    """Group ids; any of them."""
    is_hanging: bool = False
    """true: only transactions that are open for more than 15 minutes."""


class PeriodQuery(ClusterQuery):
    """The parameters of the transactions of a period."""

    group: OptionalGroup = ""
    within: Within = "1h"
    limit: Limit = 10


@operation("/transactions")
def list_transactions(clusters: Clusters, query: TransactionsQuery) -> TransactionPage:
    """Open transactions with pending offsets, oldest first."""
    shown = clusters.snapshot(query)
    rows = [
        row
        for row in _open(shown, query.group, _MOST_OFFSETS)
        if row["is_hanging"] or not query.is_hanging
    ]
    fields = page_of_rows(
        rows,
        lambda row: (row["since"].isoformat(), *(row[name] for name in _KEY)),
        (str, int, int, str),
        query.cursor,
        query.limit,
    )
    return shown.answer(TransactionPage, **fields)


@operation(tool="transactions")
def find_transactions(clusters: Clusters, query: PeriodQuery) -> Transactions:
    """Show transactions that hold offsets back, were aborted, or were open for a long time.

    Use it for the statuses PENDING and HANGING_TRANSACTION, and for the causes open_transaction,
    aborted_transactions and transaction_hung. Names the producer, the client and, if known, the
    transactional id.
    """
    shown, limit = clusters.opened(query), query.limit
    since = shown.begin(query.within)
    still_open = _open(shown, [query.group] if query.group else [], limit)
    aborted = _aborted(shown, query.group, since)
    late = {"group": query.group or None, "events": [EventName.TRANSACTION_HUNG.value]}
    return shown.answer(
        Transactions,
        since=since,
        open=still_open[:limit],
        more_open=max(len(still_open) - limit, 0),
        aborted=aborted[:limit],
        more_aborted=max(len(aborted) - limit, 0),
        **folded_list(shown, "ended_late", limit, since=since, **late),
    )


def _open(shown: Shown, group_ids: list[str], most_offsets: int) -> list[Row]:
    return [
        {
            **row,
            "age_ms": round(row["age_ms"]),
            "is_marker_lost": row["is_marker_lost"] is True,
            "offsets": row["offsets"][:most_offsets],
            "offset_count": len(row["offsets"]),
        }
        for row in shown.snapshot.transactions
        if not group_ids or row["group_id"] in group_ids
    ]


def _aborted(shown: Shown, group_id: str, since: datetime) -> list[Row]:
    filters: list[tuple[str, str, Any]] = [
        *(("day", ">=", since.date()), ("record_timestamp", ">=", since)),
        *(("record_timestamp", "<=", shown.at), ("outcome", "=", Outcome.ABORTED.value)),
    ]
    if group_id:
        filters.append(("group_id", "=", group_id))
    names = (*_KEY, "record_offset", "record_timestamp")
    commits = shown.reader.read(OFFSET_COMMITS.name, names, filters)
    by_producer = commits.group_by(_KEY).aggregate(
        [
            (name, function)
            for name in ("record_offset", "record_timestamp")
            for function in ("min", "max")
        ]
        + [("record_offset", "count")]
    )
    order = [("record_offset_count", "descending"), ("group_id", "ascending")]
    return [
        {
            **row,
            "commits": row["record_offset_count"],
            "first_at": row["record_timestamp_min"],
            "last_at": row["record_timestamp_max"],
            "record_ids": [
                record_id(row["log_partition"], offset)
                for offset in sorted({row["record_offset_min"], row["record_offset_max"]})
            ],
        }
        for row in by_producer.sort_by(order).to_pylist()
    ]
