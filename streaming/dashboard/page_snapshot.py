"""A snapshot with the views that several pages share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow.compute as pc

from coordinator_state.insight.group_status import Status, StatusRules
from coordinator_state.insight.transaction_commands import transaction_commands
from streaming.lag.freshness import freshness_notice, tables_known_to
from streaming.lag.group_lag import lag_totals
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
    def group_rows(self) -> Sequence[Row]:
        """Each group with its status, number of members and smallest retention margin."""
        margins = lag_totals(self.lags, "group")
        known = dict(
            zip(
                margins["group_id"].to_pylist(),
                margins["min_retention_margin_ms"].to_pylist(),
                strict=True,
            )
        )
        counts = self.reader.own("groups", ["member_count"])
        members = dict(
            zip(counts["group_id"].to_pylist(), counts["member_count"].to_pylist(), strict=True)
        )
        return [
            {
                **row,
                "rank": Status(row["status"]).rank,
                "members": members.get(row["group_id"]),
                "min_retention_margin_ms": known.get(row["group_id"]),
            }
            for row in self.groups
        ]

    def partitions_of(self, group_id: str) -> Sequence[Row]:
        """Rows of `group_lag` of a group, with status."""
        return self._with_status(pc.field("group_id") == group_id)

    def partitions_of_topic(self, topic: str) -> Sequence[Row]:
        """Rows of `group_lag` of all groups with committed offsets of a topic, with status."""
        return self._with_status(pc.field("topic") == topic)

    def _with_status(self, condition: pc.Expression) -> Sequence[Row]:
        return [
            {**row, "status": status, "reason": reason, "rank": Status(status).rank}
            for row in self.lags.filter(condition).to_pylist()
            for status, reason in [self._judged[row["group_id"], row["topic"], row["partition"]]]
        ]

    @cached_property
    def _judged(self) -> Mapping[tuple[str, str, int], tuple[str, str]]:
        return {
            (row["group_id"], row["topic"], row["partition"]): (row["status"], row["reason"])
            for row in self.partitions
        }

    @cached_property
    def unhealthy(self) -> Mapping[str, str]:
        """The status of each unhealthy group, worst first."""
        rows = sorted(self.group_rows, key=lambda row: -row["rank"])
        return {
            row["group_id"]: row["status"] for row in rows if Status(row["status"]) not in _HEALTHY
        }

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
                    "group_id": rows[0]["group_id"],
                    "age_ms": age_ms,
                    "is_hanging": age_ms > StatusRules().hanging_after_ms,
                    "offsets": sorted(rows, key=lambda row: (row["topic"], row["partition"])),
                    "commands": commands.lines,
                }
            )
        return found


def current_alerts(snapshot: Snapshot) -> Sequence[Row]:
    """Rows of `alerts`, always as of now; firing alerts come first."""
    found: list[Row] = snapshot.reader.read("alerts").to_pylist()
    order = {"firing": 0, "pending": 1, "resolved": 2}
    return sorted(found, key=lambda row: (order[row["state"]], -row["since"].timestamp()))
