"""A snapshot with the views that several pages and endpoints share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import rows_of
from coordinator_state.insight.group_facts import LagHistory
from coordinator_state.insight.group_status import Status
from coordinator_state.insight.kafka_commands import transaction_commands
from coordinator_state.insight.lag import GONE
from coordinator_state.insight.transaction_owner import TransactionOwner
from streaming.lag.burrow_status import burrow_partitions
from streaming.lag.open_transactions import open_transactions
from streaming.lag.recent_commits import KEY
from streaming.lag.status_history import standing_since
from streaming.tables.once import once
from streaming.views.list_query import PLACE_OF_ROW, Condition, Key, ListQuery
from streaming.views.lists import lags_of
from streaming.views.query import Queried, asking
from streaming.views.snapshot import Snapshot


def counted(statuses: pa.ChunkedArray) -> Mapping[str, int]:
    """The number of each status, worst first."""
    counts = pc.value_counts(statuses).to_pylist()
    return worst_first({row["values"]: row["counts"] for row in counts})


def worst_first(counts: Mapping[str, int]) -> Mapping[str, int]:
    """Numbers by status, the worst status first."""
    return dict(sorted(counts.items(), key=lambda item: -Status(item[0]).rank))


Row = dict[str, Any]
_OF_LISTS: Final = (
    *(*KEY, "committed_offset", "last_stable_offset", "log_end_offset", "lag"),
    *("is_lag_lower_bound", "lag_to_last_stable"),
)


class RowsBehind(NamedTuple):
    """Rows of a list, their keys, and whether more rows follow."""

    rows: Sequence[Row]
    keys: Sequence[Key]
    has_more: bool


class ServedSnapshot(Snapshot):
    """The tables as of one micro-batch, for the page and the API."""

    _last_lags: tuple[Sequence[Condition], pa.Table] | None = None

    @contextmanager
    def asking(self, query: ListQuery) -> Iterator[Callable[[str], pa.Table]]:
        """A function that answers the SQL of a list."""
        with asking(partial(self._asked, query)) as ask:
            yield ask

    def listed(
        self, query: ListQuery, columns: str | None = None, most: int | None = None
    ) -> pa.Table:
        """The rows of a list, by default all rows and columns; see `asking`."""
        sql = query.sql if columns is None else query.sql_of(columns)
        with self.asking(query) as ask:
            return ask(sql if most is None else f"{sql}\nLIMIT {most}")

    def behind(self, query: ListQuery, last: Key | None, limit: int) -> RowsBehind:
        """The first rows of a list behind a key, or its first rows, in the order of the keys."""
        with self.asking(query) as ask:
            rows = ask(f"{query.behind(last)}\nLIMIT {limit + 1}")
        keys = [tuple(key.values()) for key in rows[PLACE_OF_ROW].to_pylist()]
        shown = rows_of(rows.drop_columns([PLACE_OF_ROW]).slice(0, limit))
        return RowsBehind(shown, keys[: len(shown)], has_more=len(keys) > limit)

    def number(self, query: ListQuery) -> int:
        """The number of rows of a list."""
        with self.asking(query) as ask:
            number: int = ask(query.number())["number"][0].as_py()
        return number

    def ids(self, query: ListQuery, most: int | None = None) -> list[str]:
        """The groups of a list, in its order."""
        ids: list[str] = self.listed(query, "group_id", most)["group_id"].to_pylist()
        return ids

    def _asked(self, query: ListQuery, name: str) -> Queried:
        """A table or view; of `group_lag`, only the columns or the rows that are needed."""
        table, conditions = query.reads
        if name != "group_lag":
            filters = [*conditions] or None
            return self.reader.read(name, filters=filters) if name == table else self.queried(name)
        if not conditions:
            return self._lags_of_lists
        # Most pages ask several times for the same rows.
        last = self._last_lags
        if last is None or last[0] != conditions:
            ((column, _, values),) = conditions
            wanted = pc.field(column).isin(pa.array(values, pa.string()))
            self._last_lags = last = conditions, self.evaluation.lags_where(wanted)
        return last[1]

    @once
    def _lags_of_lists(self) -> pa.Table:
        """The columns of `group_lag` for lists of all groups."""
        return self.evaluation.lag_columns(_OF_LISTS)

    def partitions_of(self, *group_ids: str) -> Sequence[Row]:
        """Rows of `group_lag` of groups."""
        return rows_of(self.listed(lags_of("group_id", group_ids))) if group_ids else []

    def partitions_of_topic(self, topic: str) -> Sequence[Row]:
        """Rows of `group_lag` of all groups that read a topic."""
        return rows_of(self.listed(lags_of("topic", [topic])))

    @once
    def burrow(self) -> Mapping[str, Sequence[Row]]:
        """Rows of `burrow_partitions` by group."""
        rows_by_group: dict[str, list[Row]] = defaultdict(list)
        # Commit times come from ages, which are of another moment in kept rows.
        lags = None if self.evaluation.is_kept else self.lags
        for row in burrow_partitions(self.reader, self.at, lags=lags):
            rows_by_group[row["group_id"]].append(row)
        return rows_by_group

    @once
    def log_ends(self) -> Mapping[str, Mapping[int, int | None]]:
        """The log end of each partition that a group reads, by topic; None if it is unknown."""
        ends_by_topic: dict[str, dict[int, int | None]] = defaultdict(dict)
        columns = ["topic", "partition", "log_end_offset", "topic_state"]
        for topic, partition, log_end, state in zip(
            *(self.lags[name].to_pylist() for name in columns), strict=True
        ):
            if state != GONE:
                ends_by_topic[topic][partition] = log_end
        return ends_by_topic

    @once
    def last_hours(self) -> dict[str, LagHistory]:
        """The lag over the last hour of those groups that a page has asked for; pages add to it."""
        return {}

    @once
    def status_since(self) -> Mapping[str, datetime]:
        """The time since which a group has its status, for those groups of which it is known."""
        statuses = self.evaluation.statuses
        if not self.evaluation.is_kept:
            return standing_since(self.reader, statuses, self.at)
        known = statuses.filter(pc.is_valid(statuses["status_since"]))
        columns = known["group_id"].to_pylist(), known["status_since"].to_pylist()
        return dict(zip(*columns, strict=True))

    @once
    def older_statuses(self) -> frozenset[str]:
        """The groups whose status may have begun before `status_since`."""
        statuses = self.evaluation.statuses
        is_older = statuses["is_status_older"].fill_null(False)
        return frozenset(statuses["group_id"].filter(is_older).to_pylist())

    @once
    def progress(self) -> Sequence[Row]:
        """Rows of `load_progress`."""
        rows: list[Row] = self.reader.read("load_progress").to_pylist()
        return sorted(rows, key=lambda row: row["log_partition"])

    @once
    def quarantined(self) -> int:
        """The number of quarantined records."""
        return sum(row["records_quarantined"] for row in self.progress)

    @once
    def transactions(self) -> Sequence[Row]:
        """Ongoing transactions with pending offsets, oldest first."""
        transactions = []
        for transaction, rows in open_transactions(self.reader):
            age_ms = (self.at - transaction.since).total_seconds() * 1000
            commands = transaction_commands(
                transaction.log_partition,
                transaction.first_record_offset,
                two_phase_commit_id=transaction.two_phase_commit_id,
            )
            transactions.append(
                {
                    **asdict(transaction),
                    **_owner(transaction.owner),
                    "group_id": rows[0]["group_id"],
                    "age_ms": age_ms,
                    "is_hanging": age_ms > self.status_rules.hanging_after_ms
                    and transaction.two_phase_commit_id is None,
                    "offsets": sorted(rows, key=lambda row: (row["topic"], row["partition"])),
                    "commands": commands.lines(
                        is_known_to_coordinator=transaction.is_known_to_coordinator
                    ),
                }
            )
        return transactions


def _owner(owner: TransactionOwner | None) -> Row:
    """The owner of a transaction as columns; null if it is unknown."""
    return {
        "transactional_id": owner and owner.transactional_id,
        "transaction_state": owner and owner.state,
        "abort_timestamp": owner and owner.abort_timestamp,
        "is_marker_lost": owner and owner.is_marker_lost,
        "is_two_phase_commit": owner and owner.is_two_phase_commit,
    }
