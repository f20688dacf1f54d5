"""The transactions of a period in which a group committed offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from coordinator_state.apply.columns import rows_of
from coordinator_state.replay.offsets import Outcome
from streaming.tables.reader import TableReader
from streaming.tables.schemas import OFFSET_COMMITS, TRANSACTIONS

_KEY: Final = [
    *("log_partition", "producer_id", "producer_epoch", "outcome", "outcome_record_offset")
]
_TIMES: Final = ["record_offset", "record_timestamp", "outcome_timestamp"]
_ENDED: Final = [Outcome.COMMITTED.value, Outcome.ABORTED.value]


@dataclass(frozen=True, slots=True)
class GroupTransactions:
    """The newest transactions first, and the number of all of the period by outcome."""

    rows: Sequence[dict[str, Any]]
    counts: dict[str, int]


def group_transactions(
    reader: TableReader, group_id: str, *, since: datetime, until: datetime, limit: int
) -> GroupTransactions:
    """The ended transactions whose first commit for the group lies in a period.

    A row has the number of committed `offsets`, the first record in the log, and the transactional
    id if `transactions` still has the producer. Offsets that the producer committed again before
    the end count once.
    """
    commits = reader.read(
        OFFSET_COMMITS.name,
        [*_KEY, *_TIMES],
        [
            ("group_id", "=", group_id),
            *(("day", ">=", since.date()), ("day", "<=", until.date())),
            *(("record_timestamp", ">=", since), ("record_timestamp", "<=", until)),
            *(("producer_id", ">=", 0), ("outcome", "in", _ENDED)),
        ],
    )
    transactions = commits.group_by(_KEY).aggregate(
        [
            *(("record_offset", "count"), ("record_offset", "min")),
            *(("record_timestamp", "min"), ("outcome_timestamp", "max")),
        ]
    )
    transactions = transactions.rename_columns(
        [*_KEY, "offsets", "record_offset", "record_timestamp", "outcome_timestamp"]
    )
    counts = dict.fromkeys(_ENDED, 0)
    for outcome in transactions["outcome"].to_pylist():
        counts[outcome] += 1
    order = [("record_timestamp", "descending"), ("record_offset", "descending")]
    rows = rows_of(transactions.sort_by(order).slice(0, limit))
    names = _transactional_ids(reader, {row["producer_id"] for row in rows})
    for row in rows:
        row["transactional_id"] = names.get(row["producer_id"])
        row["duration_ms"] = _duration_ms(row["record_timestamp"], row["outcome_timestamp"])
    return GroupTransactions(rows, counts)


def _transactional_ids(reader: TableReader, producer_ids: set[int]) -> dict[int, str]:
    if not producer_ids:
        return {}
    columns = ["producer_id", "transactional_id"]
    transactions: pa.Table = reader.read(
        TRANSACTIONS.name, columns, [("producer_id", "in", sorted(producer_ids))]
    )
    return dict(zip(*(transactions[name].to_pylist() for name in columns), strict=True))


def _duration_ms(began: datetime | None, ended: datetime | None) -> float | None:
    if began is None or ended is None:
        return None
    return (ended - began).total_seconds() * 1000
