"""A snapshot with the views that several pages share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_status import Status, StatusRules
from coordinator_state.insight.transaction_commands import transaction_commands
from coordinator_state.insight.transaction_owner import TransactionOwner
from streaming.dashboard.group_list import GroupList
from streaming.lag.freshness import freshness_notice, tables_known_to
from streaming.lag.open_transactions import open_transactions
from streaming.lag.standing import standing_since
from streaming.tables.load_state import loading_notice
from streaming.views.snapshot import Snapshot

Row = dict[str, Any]
MAX_GROUPS_WITH_SINCE = 200
"""For how many unhealthy groups a page determines the start time."""
_HEALTHY = frozenset({Status.OK, Status.IDLE})


class PageSnapshot(Snapshot):
    """The tables as of one micro-batch, for pages."""

    @cached_property
    def group_list(self) -> GroupList:
        """Each group with its status, number of members and smallest retention margin."""
        return GroupList(self.groups)

    def partitions_of(self, group_id: str) -> Sequence[Row]:
        """Rows of `group_lag` of a group, with status."""
        return self._with_status(pc.equal(self.lags["group_id"], group_id))

    def partitions_of_topic(self, topic: str) -> Sequence[Row]:
        """Rows of `group_lag` of all groups with committed offsets of a topic, with status."""
        return self._with_status(pc.equal(self.lags["topic"], topic))

    def _with_status(self, condition: pa.ChunkedArray) -> Sequence[Row]:
        numbers = np.flatnonzero(condition.to_numpy())
        rows = self.lags.take(pa.array(numbers)).to_pylist()
        judged = self.partitions.rows(numbers)
        return [
            {
                **row,
                "status": one["status"],
                "reason": one["reason"],
                "rank": Status(one["status"]).rank,
            }
            for row, one in zip(rows, judged, strict=True)
        ]

    @cached_property
    def unhealthy(self) -> Mapping[str, str]:
        """The status of each unhealthy group, worst first."""
        return self.group_list.worst(_HEALTHY)

    @cached_property
    def standing(self) -> Mapping[str, datetime]:
        """The earliest known time since which each unhealthy group has its status."""
        worst = dict(list(self.unhealthy.items())[:MAX_GROUPS_WITH_SINCE])
        return standing_since(self.reader, worst, self.at)

    @cached_property
    def known_until(self) -> datetime | None:
        """The time up to which the tables have every commit; None if unknown."""
        return tables_known_to(self.reader, self.at)

    @cached_property
    def notice(self) -> str | None:
        """Sentences about stale tables and log partitions that are not current; None if neither."""
        loading = loading_notice(self.reader.load_states, self.reader.log_partitions)
        found = (freshness_notice(self.reader, self.at), loading and f"{loading.capitalize()}.")
        return " ".join(filter(None, found)) or None

    @cached_property
    def progress(self) -> Sequence[Row]:
        """Rows of `load_progress`."""
        found: list[Row] = self.reader.read("load_progress").to_pylist()
        return sorted(found, key=lambda row: row["log_partition"])

    @cached_property
    def quarantined(self) -> int:
        """The number of quarantined records."""
        return sum(row["records_quarantined"] for row in self.progress)

    @cached_property
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
                    "is_hanging": age_ms > StatusRules().hanging_after_ms,
                    "offsets": sorted(rows, key=lambda row: (row["topic"], row["partition"])),
                    "commands": commands.lines(
                        is_known_to_coordinator=transaction.owner is not None
                        and not transaction.is_marker_lost
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
