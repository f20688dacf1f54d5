"""The tool `transactions`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from coordinator_state.insight.group_events import EventName
from coordinator_state.replay.offsets import Outcome
from streaming.agents.answer import (
    Answer,
    At,
    ClusterName,
    Event,
    GroupId,
    Limit,
    Part,
    RecordId,
    Text,
    Time,
    Within,
)
from streaming.agents.clusters import Clusters
from streaming.served.snapshot import Row
from streaming.tables.reader import TableReader
from streaming.tables.schemas import OFFSET_COMMITS
from streaming.views.event_summary import event_summary
from streaming.views.text import from_printable

_KEY: Final = ("log_partition", "group_id", "producer_id")
_COLUMNS: Final = (*_KEY, "record_offset", "record_timestamp")


class OpenTransaction(Part):
    """An open transaction that keeps offsets of a group pending."""

    group_id: Text
    producer_id: int
    producer_epoch: int
    transactional_id: Text | None
    """Null if `__transaction_state` is not followed or does not have the producer."""
    transaction_state: str | None
    client_id: Text | None
    client_host: Text | None
    offsets: int
    """The number of pending offsets."""
    since: Time
    age_ms: int
    is_hanging: bool
    """Whether the transaction is older than 15 minutes."""
    is_marker_lost: bool | None
    """Whether it stays open until somebody aborts it; null if unknown."""
    abort_timestamp: Time | None
    """The time at which its coordinator aborts it."""
    record_ids: list[RecordId]
    """The first commit of the transaction in the log partition."""
    commands: list[str]
    """Kafka commands with which a person can inspect or end it. This server runs none of them."""


class AbortedCommits(Part):
    """Commits of a group that were aborted with the transactions of one producer."""

    group_id: Text
    producer_id: int
    commits: int
    first_at: Time | None
    last_at: Time | None
    record_ids: list[RecordId]
    """The first and the last of these commits."""


class Transactions(Answer):
    """Transactions with committed offsets."""

    since: Time
    """The start of the period of `aborted` and `ended_late`."""
    open: list[OpenTransaction]
    """Transactions that are open at `at`, oldest first."""
    more_open: int
    aborted: list[AbortedCommits]
    """Aborted commits, greatest number first."""
    more_aborted: int
    ended_late: list[Event]
    """Transactions that ended after more than a minute, with their outcomes."""
    more_ended_late: int
    """The number of their events that are not in the list."""


def transactions(
    clusters: Clusters,
    group: GroupId = "",
    within: Within = "1h",
    limit: Limit = 10,
    at: At = "",
    cluster: ClusterName = "",
) -> Transactions:
    """Show transactions that hold offsets back, were aborted, or were open for a long time.

    Use it for the statuses PENDING and HANGING_TRANSACTION, and for the causes open_transaction,
    aborted_transactions and transaction_hung. Names the producer, the client and, if known, the
    transactional id.
    """
    opened = clusters.opened(cluster, at)
    reader, until = opened.snapshot.reader, opened.snapshot.at
    since, group_id = opened.begin(within), from_printable(group) or None
    is_open = [row for row in opened.snapshot.transactions if group_id in (None, row["group_id"])]
    aborted = _aborted(reader, group_id, since, until)
    hung = event_summary(
        reader,
        group=group_id,
        events=[EventName.TRANSACTION_HUNG.value],
        since=since,
        until=until,
    )
    return Transactions(
        **opened.fields,
        since=since,
        open=[_open(row) for row in is_open[:limit]],
        more_open=max(len(is_open) - limit, 0),
        aborted=aborted[:limit],
        more_aborted=max(len(aborted) - limit, 0),
        ended_late=[Event.of(folded) for folded in hung.rows[:limit]],
        more_ended_late=hung.more + sum(folded.count for folded in hung.rows[limit:]),
    )


def _open(row: Row) -> OpenTransaction:
    return OpenTransaction(
        **row
        | {
            "offsets": len(row["offsets"]),
            "age_ms": round(row["age_ms"]),
            "record_ids": [RecordId.of((row["log_partition"], row["first_record_offset"]))],
        }
    )


def _aborted(
    reader: TableReader, group_id: str | None, since: datetime, until: datetime
) -> list[AbortedCommits]:
    filters: list[tuple[str, str, Any]] = [
        *(("day", ">=", since.date()), ("record_timestamp", ">=", since)),
        *(("record_timestamp", "<=", until), ("outcome", "=", Outcome.ABORTED.value)),
    ]
    if group_id is not None:
        filters.append(("group_id", "=", group_id))
    commits = reader.read(OFFSET_COMMITS.name, _COLUMNS, filters)
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
        AbortedCommits(
            group_id=row["group_id"],
            producer_id=row["producer_id"],
            commits=row["record_offset_count"],
            first_at=row["record_timestamp_min"],
            last_at=row["record_timestamp_max"],
            record_ids=[
                RecordId.of((row["log_partition"], offset))
                for offset in sorted({row["record_offset_min"], row["record_offset_max"]})
            ],
        )
        for row in by_producer.sort_by(order).to_pylist()
    ]
