"""The statuses of one group that `run` recorded in `status_changes`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow.compute as pc

from coordinator_state.insight.group_status import moment_text
from coordinator_state.replay.partitioner import OFFSETS_TOPIC, partition_for
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_STATUS, LOG_OFFSETS, STATUS_CHANGES

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecordedStatus:
    """A status, None if the group did not exist; `since` is the time of its first evaluation."""

    status: str | None
    since: datetime
    reason: str | None


class RecordedStatuses:
    """The recorded statuses of a group from `since` on, up to the moment of `newest`.

    A status is known from its evaluation on, and as long as `run` sampled the log: an hour later
    nobody knows whether `run` would have recorded another one.
    """

    def __init__(self, newest: TableReader, group_id: str, since: datetime) -> None:
        self._changes = _changes(newest, group_id)
        self._times = [row["changed_at"] for row in self._changes]
        self._lasting = None if self._changes else _lasting(newest, group_id)
        self._patience = timedelta(milliseconds=newest.status_rules.stale_after_ms)
        self._sampled_at = _sampled_at(newest, group_id, since - self._patience)

    def at(self, moment: datetime) -> RecordedStatus | None:
        """The status at a moment; None if it is not known from the records."""
        if not self._is_sampled(moment):
            return None
        number = bisect_right(self._times, moment)
        if number:
            row = self._changes[number - 1]
            return RecordedStatus(row["status_after"], row["changed_at"], row["reason"])
        if self._lasting is not None and self._lasting.since <= moment:
            return self._lasting
        return None

    def _is_sampled(self, moment: datetime) -> bool:
        number = bisect_right(self._sampled_at, moment)
        return number > 0 and moment - self._sampled_at[number - 1] <= self._patience


def since_text(recorded: RecordedStatus, moment: datetime) -> str:
    """The reason of a recorded status, with the time at which it was evaluated."""
    if recorded.status is None:
        return "the group did not exist"
    since = f"since {moment_text(recorded.since, moment)}"
    return f"{since}: {recorded.reason}" if recorded.reason else since


def _changes(reader: TableReader, group_id: str) -> Sequence[Row]:
    """The changes of the group itself, in the order of time."""
    of_group = (pc.field("group_id") == group_id) & pc.field("topic").is_null()
    rows: list[Row] = (
        reader.read(
            STATUS_CHANGES.name,
            ["changed_at", "status_after", "reason"],
            of_group & (pc.field("changed_at") <= reader.moment),
        )
        .sort_by("changed_at")
        .to_pylist()
    )
    return rows


def _lasting(reader: TableReader, group_id: str) -> RecordedStatus | None:
    """The status of a group whose last change is older than the retention of the history."""
    columns = ["status", "status_since"]
    for row in reader.read(GROUP_STATUS.name, columns, [("group_id", "=", group_id)]).to_pylist():
        if row["status_since"] is not None:
            return RecordedStatus(row["status"], row["status_since"], None)
    return None


def _sampled_at(reader: TableReader, group_id: str, since: datetime) -> Sequence[datetime]:
    """The times at which the log partition of the group was sampled."""
    log_partition = partition_for(group_id, reader.log_partitions)
    samples = reader.read(
        LOG_OFFSETS.name,
        ["sampled_at"],
        [
            *(("day", ">=", since.date()), ("sampled_at", ">=", since)),
            *(("topic", "=", OFFSETS_TOPIC), ("partition", "=", log_partition)),
        ],
    )
    times: list[datetime] = samples["sampled_at"].to_pylist()
    return sorted(times)
