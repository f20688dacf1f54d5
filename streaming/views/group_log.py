"""The records of a group in `__consumer_offsets`, decoded from the history tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Any, Final, NamedTuple

from coordinator_state.records.record_json import Document, record_json
from coordinator_state.records.record_types import OFFSET_COMMIT_TYPES, RECORD_TYPES
from streaming.tables.clock import moment_ms
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_RECORDS, OFFSET_COMMITS
from streaming.views.history import history

Row = Mapping[str, Any]

_NEVER: Final = datetime.min.replace(tzinfo=timezone.utc)
_COMMIT_TYPE: Final = OFFSET_COMMIT_TYPES[-1]
_OF_COMMIT: Final = {
    "committed_offset": "offset",
    "leader_epoch": "leaderEpoch",
    "metadata": "metadata",
    "commit_timestamp": "commitTimestamp",
    "expire_timestamp": "expireTimestamp",
    "topic_id": "topicId",
}
"""The fields of the value of a commit, by their columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """A record of a group.

    The tables keep the fields of commits, not their bytes: `raw_key` and `raw_value` are None then,
    and the version of the value is unknown. `raw_value` of a tombstone is None, too.
    """

    table: str
    log_partition: int
    record_offset: int
    record_timestamp: datetime | None
    record_type: int
    raw_key: bytes | None
    raw_value: bytes | None
    is_tombstone: bool
    outcome: str | None
    commit: Row | None

    @property
    def type_name(self) -> str:
        """Kafka's name of the record type."""
        known = RECORD_TYPES.get(self.record_type)
        return f"type {self.record_type}" if known is None else known.name

    @property
    def document(self) -> Document:
        """Key and value as Kafka's message formatters show them."""
        if self.commit is None:
            return record_json(self.raw_key, self.raw_value)
        return _commit_json(self.commit)


class NewestRecords(NamedTuple):
    """The newest records, newest first, and the queries of all commits and of all other records."""

    rows: Sequence[LogRecord]
    commits_sql: str
    others_sql: str


def newest_records(
    reader: TableReader, group_id: str, *, since: datetime, until: datetime, limit: int
) -> NewestRecords:
    """The newest records of a group in a period."""
    of_group: dict[str, Any] = {"group": group_id, "since": since, "until": until, "limit": limit}
    others = history(reader, "group_records", **of_group)
    commits = history(reader, "offset_commits", **of_group)
    log_records = [
        *map(_group_record, others.rows.to_pylist()),
        *map(_commit, commits.rows.to_pylist()),
    ]
    newest = sorted(log_records, key=_place, reverse=True)[:limit]
    return NewestRecords(newest, commits.sql, others.sql)


def record_at(
    reader: TableReader,
    group_id: str,
    log_partition: int,
    record_offset: int,
    day: date | None = None,
) -> LogRecord | None:
    """The record at a place in the log, if it is of the group.

    Args:
        reader: the snapshot.
        group_id: the group.
        log_partition: the log partition.
        record_offset: the record offset.
        day: the day of the record timestamp in UTC; without it, all days are searched.
    """
    filters: list[tuple[str, str, Any]] = [
        *(("group_id", "=", group_id), ("log_partition", "=", log_partition)),
        ("record_offset", "=", record_offset),
        *([] if day is None else [("day", "=", day)]),
    ]
    for name, record_of in ((GROUP_RECORDS.name, _group_record), (OFFSET_COMMITS.name, _commit)):
        rows = reader.read(name, filters=filters).to_pylist()
        if rows:
            return record_of(rows[-1])
    return None


def _place(record: LogRecord) -> tuple[datetime, int, int]:
    return record.record_timestamp or _NEVER, record.log_partition, record.record_offset


def _group_record(row: Row) -> LogRecord:
    names = ("log_partition", "record_offset", "record_timestamp", "record_type", "outcome")
    return LogRecord(
        table=GROUP_RECORDS.name,
        **{name: row[name] for name in names},
        raw_key=row["raw_key"],
        raw_value=row["raw_value"],
        is_tombstone=row["raw_value"] is None,
        commit=None,
    )


def _commit(row: Row) -> LogRecord:
    names = ("log_partition", "record_offset", "record_timestamp", "is_tombstone", "outcome")
    return LogRecord(
        table=OFFSET_COMMITS.name,
        **{name: row[name] for name in names},
        record_type=_COMMIT_TYPE,
        raw_key=None,
        raw_value=None,
        commit=row,
    )


def _commit_json(row: Row) -> Document:
    """A commit in the shape of the formatters; fields that are null are not in its value."""
    data = {field: _json(row[column]) for column, field in _OF_COMMIT.items()}
    key = {"group": row["group_id"], "topic": row["topic"], "partition": row["partition"]}
    return {
        "key": {"type": _COMMIT_TYPE, "data": key},
        "value": None
        if row["is_tombstone"]
        else {"data": {field: value for field, value in data.items() if value is not None}},
    }


def _json(value: Any) -> Any:
    return moment_ms(value) if isinstance(value, datetime) else value
