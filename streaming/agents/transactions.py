"""The tool `transactions`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from coordinator_state.insight import group_facts
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import StatusRules
from coordinator_state.insight.transaction_commands import transaction_commands
from coordinator_state.insight.transaction_owner import TransactionOwner
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
from streaming.lag.open_transactions import open_transactions
from streaming.tables.reader import TableReader
from streaming.tables.schemas import OFFSET_COMMITS
from streaming.views.event_summary import event_summary
from streaming.views.text import from_printable

_KEY: Final = ("log_partition", "group_id", "producer_id")
_UNKNOWN: Final = TransactionOwner(
    transactional_id=None, state=None, abort_timestamp=None, is_marker_lost=None
)
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
    is_open = open_transactions(reader, [("group_id", "=", group_id)] if group_id else None)
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
        open=[
            _open(each, rows[0]["group_id"], until, opened.snapshot.status_rules)
            for each, rows in is_open[:limit]
        ],
        more_open=max(len(is_open) - limit, 0),
        aborted=aborted[:limit],
        more_aborted=max(len(aborted) - limit, 0),
        ended_late=[Event.of(folded) for folded in hung.rows[:limit]],
        more_ended_late=hung.more + sum(folded.count for folded in hung.rows[limit:]),
    )


def _open(
    transaction: group_facts.OpenTransaction, group_id: str, at: datetime, rules: StatusRules
) -> OpenTransaction:
    owner = transaction.owner or _UNKNOWN
    age_ms = round((at - transaction.since).total_seconds() * 1000)
    commands = transaction_commands(transaction.log_partition, transaction.first_record_offset)
    return OpenTransaction(
        group_id=group_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transactional_id=owner.transactional_id,
        transaction_state=owner.state,
        client_id=transaction.client_id,
        client_host=transaction.client_host,
        offsets=transaction.offsets,
        since=transaction.since,
        age_ms=age_ms,
        is_hanging=age_ms > rules.hanging_after_ms,
        is_marker_lost=owner.is_marker_lost,
        abort_timestamp=owner.abort_timestamp,
        record_ids=[RecordId.of((transaction.log_partition, transaction.first_record_offset))],
        commands=list(commands.lines(is_known_to_coordinator=transaction.is_known_to_coordinator)),
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
