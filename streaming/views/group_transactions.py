"""The transactions of a period in which a group committed offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from coordinator_state.apply.columns import rows_of
from streaming.tables.reader import TableReader
from streaming.tables.schemas import TRANSACTIONS
from streaming.views.lists import ended_transactions
from streaming.views.query import asking

_KEY: Final = ("log_partition", "producer_id", "producer_epoch", "outcome", "outcome_record_offset")
_TIMES: Final = ("record_offset", "record_timestamp", "outcome_timestamp")
_ENDED: Final = """
WITH ended AS (
  SELECT log_partition, producer_id, producer_epoch, outcome, count(*) AS offsets,
         min(record_offset) AS record_offset, min(record_timestamp) AS record_timestamp,
         max(outcome_timestamp) AS outcome_timestamp
  FROM offset_commits
  GROUP BY log_partition, producer_id, producer_epoch, outcome, outcome_record_offset
), owners AS (
  SELECT producer_id, max_by(
           transactional_id, coalesce(epoch_us(last_update_timestamp), 0)
         ) AS transactional_id
  FROM transactions
  GROUP BY producer_id
)
SELECT *, (epoch_us(outcome_timestamp) - epoch_us(record_timestamp)) / 1000 AS duration_ms,
       count(*) FILTER (outcome = 'committed') OVER () AS committed,
       count(*) FILTER (outcome = 'aborted') OVER () AS aborted
FROM ended LEFT JOIN owners USING (producer_id)
ORDER BY record_timestamp DESC NULLS LAST, record_offset DESC
"""


@dataclass(frozen=True, slots=True)
class GroupTransactions:
    """The newest transactions first, and the number of all of the period by outcome.

    `sql` is the query of their commits.
    """

    rows: Sequence[dict[str, Any]]
    counts: Mapping[str, int]
    sql: str


def group_transactions(
    reader: TableReader, group_id: str, *, since: datetime, until: datetime, limit: int
) -> GroupTransactions:
    """The ended transactions whose first commit for the group lies in a period.

    A row has the number of committed `offsets`, the first record in the log, and the transactional
    id if `transactions` still has the producer. Offsets that the producer committed again before
    the end count once.
    """
    query = ended_transactions(group_id, since, until)
    table, conditions = query.reads
    commits = reader.read(table, [*_KEY, *_TIMES], [*conditions])
    producers = commits["producer_id"].unique().to_pylist()
    names = ["producer_id", "transactional_id", "last_update_timestamp"]
    owners = reader.read(TRANSACTIONS.name, names, [("producer_id", "in", producers)])
    with asking({table: commits, TRANSACTIONS.name: owners}) as ask:
        rows = rows_of(ask(f"{_ENDED}LIMIT {limit}"))
    first = rows[0] if rows else {"committed": 0, "aborted": 0}
    counts = {outcome: first[outcome] for outcome in ("committed", "aborted")}
    return GroupTransactions(rows, counts, query.sql)
