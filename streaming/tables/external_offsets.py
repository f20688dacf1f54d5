"""The rows of external groups in the tables of groups.

An external group is a consumer that keeps its offsets outside Kafka, in the checkpoint of a Spark
query for example. `run --external` writes its offsets to `external_offsets`. Readers add them to
`groups`, `group_offsets`, `offset_commits` and `group_events`, so lag, status, alerts and the page
need no rules of their own. The Delta tables of these names have the groups of Kafka only.

A row of an external group has the log partition that a group of this id would have, and as record
offset the time of the commit in microseconds: its offsets are in no log.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, Protocol
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.parquet import filters_to_expression

from coordinator_state.apply.group_placement import partitions_for
from coordinator_state.insight.group_events import EventName
from coordinator_state.replay.groups import EXTERNAL, NO_RECORD_OFFSET
from coordinator_state.replay.offsets import Outcome
from streaming.tables.filters import Conditions, Filters
from streaming.tables.schemas import (
    EXTERNAL_OFFSETS,
    GROUP_EVENTS,
    GROUP_OFFSETS,
    GROUPS,
    OFFSET_COMMITS,
    Table,
)

UNITED: Final = {
    table.name: table for table in (GROUPS, GROUP_OFFSETS, OFFSET_COMMITS, GROUP_EVENTS)
}
"""The tables to which readers add the rows of external groups."""
_REPEATED_WITHIN: Final = timedelta(days=2)
"""`run` writes unchanged offsets again each day, because upkeep deletes old days."""
_TIMES: Final = ["group_id", "commit_timestamp", "day", "is_repeat"]

_PUSHED: Final = {
    "group_id": "group_id",
    "day": "day",
    "commit_timestamp": "commit_timestamp",
    "record_timestamp": "commit_timestamp",
}
"""The columns of `UNITED` whose conditions hold for rows of `external_offsets`, and which ones."""
_STATE: Final = "Empty"


class ReadRows(Protocol):
    """Reads rows of a table that fulfil all conditions."""

    def __call__(
        self, name: str, columns: Sequence[str] | None, filters: Conditions | None
    ) -> pa.Table: ...


class ExternalOffsets:
    """The rows of external groups up to a moment.

    Args:
        read: reads tables without external groups.
        moment: the moment.
        log_partitions: the number of log partitions.
    """

    def __init__(self, read: ReadRows, moment: datetime, log_partitions: int) -> None:
        self._read = read
        self.moment = moment
        self._log_partitions = log_partitions

    def rows(self, name: str, filters: Filters | None) -> pa.Table:
        """The rows in one of `UNITED`; only a list of conditions avoids reading other rows."""
        if name in {GROUPS.name, GROUP_OFFSETS.name}:
            commits = self._newest
        else:
            pushed = [
                (_PUSHED[column], operator, value)
                for column, operator, value in (filters if isinstance(filters, list) else ())
                if column in _PUSHED and (column != "day" or operator == ">=")
            ]
            commits = self._commits(None, [*pushed, ("is_repeat", "=", False)])
        rows = _rows_of(name, commits, self._log_partitions)
        if isinstance(filters, list):
            filters = filters_to_expression(filters) if filters else None
        return rows if filters is None else rows.filter(filters)

    @cached_property
    def _newest(self) -> pa.Table:
        """The rows of the newest batch of each group, written last."""
        since: Conditions = [("day", ">=", (self.moment - _REPEATED_WITHIN).date())]
        times = self._commits(_TIMES, since)
        if not times.num_rows:
            # `run` has stopped for days.
            since, times = [], self._commits(_TIMES, [])
        wanted = pc.unique(_newest(times)["commit_timestamp"]).to_pylist()
        return _newest(self._commits(None, [*since, ("commit_timestamp", "in", wanted)]))

    def _commits(self, columns: Sequence[str] | None, conditions: Conditions) -> pa.Table:
        """Rows of groups whose id no group of Kafka has."""
        until = ("commit_timestamp", "<=", self.moment)
        commits = self._read(EXTERNAL_OFFSETS.name, columns, [until, *conditions])
        return commits.filter(pc.invert(pc.is_in(commits["group_id"], self._taken)))

    @cached_property
    def _taken(self) -> pa.Array:
        return self._read(GROUPS.name, ["group_id"], None)["group_id"].combine_chunks()


def _rows_of(name: str, commits: pa.Table, log_partitions: int) -> pa.Table:
    table = UNITED[name]
    if name == GROUPS.name:
        newest = commits.group_by("group_id").aggregate([("commit_timestamp", "max")])
        commits = newest.rename_columns(["group_id", "commit_timestamp"])
    if name == GROUP_EVENTS.name:
        commits = commits.filter(pc.is_valid(commits["offset_before"]))
    at_us = pc.cast(commits["commit_timestamp"], pa.int64())
    known: dict[str, Any] = {column: commits[column] for column in commits.column_names}
    known["log_partition"] = partitions_for(commits["group_id"], log_partitions)
    known["record_offset"] = known["outcome_record_offset"] = at_us
    known["record_timestamp"] = commits["commit_timestamp"]
    known["day"] = pc.cast(commits["commit_timestamp"], pa.date32())
    return _filled(table, known | _CONSTANTS[name](commits), commits.num_rows)


def _newest(commits: pa.Table) -> pa.Table:
    for name in _TIMES[1:]:
        newest = commits.group_by("group_id").aggregate([(name, "max")])
        places = pc.index_in(commits["group_id"], newest["group_id"].combine_chunks())
        commits = commits.filter(pc.equal(commits[name], newest[f"{name}_max"].take(places)))
    return commits


def _of_groups(_commits: pa.Table) -> dict[str, Any]:
    # As for a group known only from its offsets.
    return {
        "group_type": EXTERNAL,
        "state": _STATE,
        "protocol_type": "",
        "member_count": 0,
        "record_offset": NO_RECORD_OFFSET,
    }


def _of_offsets(_commits: pa.Table) -> dict[str, Any]:
    return {"metadata": ""}


def _of_commits(_commits: pa.Table) -> dict[str, Any]:
    return {"metadata": "", "is_tombstone": False, "outcome": Outcome.COMMITTED.value}


def _of_events(commits: pa.Table) -> dict[str, Any]:
    return {
        "event": EventName.OFFSET_REWIND.value,
        # A number that does not depend on the other rows of a read.
        "event_number": np.array(
            [
                crc32(f"{group_id}\0{topic}\0{partition}".encode()) >> 1
                for group_id, topic, partition in zip(
                    *(commits[name].to_pylist() for name in ("group_id", "topic", "partition")),
                    strict=True,
                )
            ],
            np.int32,
        ),
        "group_type": EXTERNAL,
        "offset_after": commits["committed_offset"],
    }


_CONSTANTS: Final = {
    GROUPS.name: _of_groups,
    GROUP_OFFSETS.name: _of_offsets,
    OFFSET_COMMITS.name: _of_commits,
    GROUP_EVENTS.name: _of_events,
}


def _filled(table: Table, known: dict[str, Any], rows: int) -> pa.Table:
    """A table with the known columns; the others are null."""
    arrays = []
    for field in table.schema:
        value = known.get(field.name)
        if isinstance(value, (pa.Array, pa.ChunkedArray)):
            arrays.append(pc.cast(value, field.type))
        elif isinstance(value, np.ndarray):
            arrays.append(pc.cast(pa.array(value), field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(value, field.type), rows))
    return pa.table(arrays, schema=table.schema)
