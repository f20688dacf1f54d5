"""A snapshot with the views that several pages and endpoints share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_status import Status
from coordinator_state.insight.lag import GONE
from coordinator_state.insight.transaction_commands import transaction_commands
from coordinator_state.insight.transaction_owner import TransactionOwner
from streaming.lag.burrow_status import burrow_partitions
from streaming.lag.lag_history import LagHistory
from streaming.lag.open_transactions import open_transactions
from streaming.lag.recent_commits import KEY
from streaming.lag.silent_members import silent_members
from streaming.lag.standing import standing_since
from streaming.lag.unread_logs import unread_logs
from streaming.once import once
from streaming.served.topic_list import OF_LAGS, TopicList, topic_list
from streaming.views.snapshot import Snapshot

Row = dict[str, Any]
MAX_GROUPS_WITH_SINCE = 200
"""For how many unhealthy groups a page determines the start time."""


class ServedSnapshot(Snapshot):
    """The tables as of one micro-batch, for the page and the API."""

    def partitions_of(self, *group_ids: str) -> Sequence[Row]:
        """Rows of `group_lag` of groups, with `rank`."""
        return self._ranked(pc.field("group_id").isin(pa.array(group_ids, pa.string())))

    def partitions_of_topic(self, topic: str) -> Sequence[Row]:
        """Rows of `group_lag` of all groups with committed offsets of a topic, with `rank`."""
        return self._ranked(pc.field("topic") == topic)

    def _ranked(self, condition: pc.Expression) -> Sequence[Row]:
        rows = self.evaluation.lags_where(condition).to_pylist()
        return [{**row, "rank": Status(row["status"]).rank} for row in rows]

    @once
    def burrow(self) -> Mapping[str, Sequence[Row]]:
        """Rows of `burrow_partitions` by group."""
        found: dict[str, list[Row]] = defaultdict(list)
        # Commit times come from ages, which are of another moment in kept rows.
        lags = None if self.evaluation.is_kept else self.lags
        for row in burrow_partitions(self.reader, self.at, lags=lags):
            found[row["group_id"]].append(row)
        return found

    @once
    def log_ends(self) -> Mapping[str, Mapping[int, int | None]]:
        """The log end of each partition that a group reads, by topic; None if it is unknown."""
        found: dict[str, dict[int, int | None]] = defaultdict(dict)
        columns = ["topic", "partition", "log_end_offset", "topic_state"]
        for topic, partition, log_end, state in zip(
            *(self.lags[name].to_pylist() for name in columns), strict=True
        ):
            if state != GONE:
                found[topic][partition] = log_end
        return found

    @once
    def silent(self) -> Mapping[str, Sequence[Row]]:
        """The assigned partitions of each group in which it has no committed offset."""
        committed = self.evaluation.lag_columns([*KEY, "member_id", "committed_offset"])
        return silent_members(self.reader, self.at, None, committed)

    @once
    def unread(self) -> pa.Table:
        """The sampled partitions in which no group has a committed offset."""
        return unread_logs(self.reader, self.at, self.evaluation.lag_columns(KEY))

    @once
    def topic_list(self) -> TopicList:
        """Each known topic with its readers, the slowest first."""
        lags = self.evaluation.lag_columns(OF_LAGS)
        return topic_list(lags, self.unread, self.silent)

    @property
    def topics(self) -> pa.Array:
        """The topics that groups have committed offsets of, in the order of their names."""
        return self.evaluation.topics

    @once
    def last_hours(self) -> dict[str, LagHistory]:
        """The lag over the last hour of those groups that a page has asked for; pages add to it."""
        return {}

    @once
    def standing(self) -> Mapping[str, datetime]:
        """The earliest known time since which each unhealthy group has its status."""
        if self.evaluation.is_kept:
            columns = (self.evaluation.statuses[name] for name in ("group_id", "status_since"))
            since = dict(zip(*(column.to_pylist() for column in columns), strict=True))
            return {group_id: since[group_id] for group_id in self.unhealthy}
        worst = dict(list(self.unhealthy.items())[:MAX_GROUPS_WITH_SINCE])
        return standing_since(self.reader, worst, self.at)

    @once
    def progress(self) -> Sequence[Row]:
        """Rows of `load_progress`."""
        found: list[Row] = self.reader.read("load_progress").to_pylist()
        return sorted(found, key=lambda row: row["log_partition"])

    @once
    def quarantined(self) -> int:
        """The number of quarantined records."""
        return sum(row["records_quarantined"] for row in self.progress)

    @once
    def transactions(self) -> Sequence[Row]:
        """Ongoing transactions with pending offsets, oldest first."""
        found = []
        for transaction, rows in open_transactions(self.reader):
            age_ms = (self.at - transaction.since).total_seconds() * 1000
            commands = transaction_commands(
                transaction.log_partition, transaction.first_record_offset
            )
            found.append(
                {
                    **asdict(transaction),
                    **_owner(transaction.owner),
                    "group_id": rows[0]["group_id"],
                    "age_ms": age_ms,
                    "is_hanging": age_ms > self.status_rules.hanging_after_ms,
                    "offsets": sorted(rows, key=lambda row: (row["topic"], row["partition"])),
                    "commands": commands.lines(
                        is_known_to_coordinator=transaction.is_known_to_coordinator
                    ),
                }
            )
        return found


def _owner(owner: TransactionOwner | None) -> Row:
    """The owner of a transaction as columns; null if it is unknown."""
    return {
        "transactional_id": owner and owner.transactional_id,
        "transaction_state": owner and owner.state,
        "abort_timestamp": owner and owner.abort_timestamp,
        "is_marker_lost": owner is not None and owner.is_marker_lost is True,
    }


def current_alerts(snapshot: Snapshot) -> Sequence[Row]:
    """Rows of `alerts`, always as of now; firing alerts come first."""
    found: list[Row] = snapshot.reader.read("alerts").to_pylist()
    order = {"firing": 0, "pending": 1, "resolved": 2}
    return sorted(found, key=lambda row: (order[row["state"]], -row["since"].timestamp()))
