"""Open transactions that keep offsets of groups pending."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from pydantic import Field

from streaming.api.cursors import page_of_rows
from streaming.api.endpoints import Answer, Clusters, Endpoint, PagedQuery
from streaming.api.fields import described

_MOST_OFFSETS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingOffset:
    """An offset that takes effect if its transaction is committed."""

    __pydantic_config__ = described("pending_offsets")

    topic: str
    partition: int
    committed_offset: int
    record_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """An open transaction of a group: a row of `open_transactions`, with further fields."""

    __pydantic_config__ = described("open_transactions")

    log_partition: int
    producer_id: int
    producer_epoch: int
    group_id: str
    client_id: str | None
    client_host: str | None
    first_record_offset: int
    """Record offset of its first pending commit."""
    since: datetime
    age_ms: int
    """Time since its first pending commit."""
    is_hanging: bool
    """Whether the transaction is open for more than 15 minutes."""
    transactional_id: str | None
    transaction_state: str | None
    abort_timestamp: datetime | None
    is_marker_lost: bool
    offsets: list[PendingOffset]
    """Pending offsets of the transaction, at most 1,000, by topic and partition."""
    offset_count: int
    """Number of all pending offsets of the transaction."""
    commands: list[str]
    """Commands of Kafka's tools that find and end the transaction."""


class TransactionPage(Answer):
    """A page of open transactions, oldest first."""

    items: list[Transaction]
    """Transactions of this page."""
    next_cursor: str | None
    """Value of `cursor` for the next page; null on the last page."""


class TransactionsQuery(PagedQuery):
    """Parameters of the list of open transactions."""

    group: Annotated[list[str], Field(description="Group ids; any of them.", default_factory=list)]
    is_hanging: Annotated[
        bool, Field(description="true: only transactions that are open for more than 15 minutes.")
    ] = False


def list_transactions(clusters: Clusters, query: TransactionsQuery) -> TransactionPage:
    """Open transactions with pending offsets, oldest first."""
    shown = clusters.snapshot(query)
    rows = [
        {
            **row,
            "age_ms": round(row["age_ms"]),
            "is_marker_lost": row["is_marker_lost"] is True,
            "offsets": row["offsets"][:_MOST_OFFSETS],
            "offset_count": len(row["offsets"]),
        }
        for row in shown.snapshot.transactions
        if (not query.group or row["group_id"] in query.group)
        and (row["is_hanging"] or not query.is_hanging)
    ]
    fields = page_of_rows(
        rows,
        lambda row: (
            row["since"].isoformat(),
            row["log_partition"],
            row["producer_id"],
            row["group_id"],
        ),
        (str, int, int, str),
        query.cursor,
        query.limit,
    )
    return TransactionPage.model_validate({**shown.envelope, **fields})


ENDPOINTS = (Endpoint("/transactions", list_transactions),)
