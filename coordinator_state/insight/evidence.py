"""Evidence about a group: a cause, one sentence, and where to see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from coordinator_state.insight.group_facts import (
    GroupFacts,
    Partition,
    RecordId,
    Row,
)
from coordinator_state.insight.group_status import Cause, moment_text
from coordinator_state.insight.sql_literal import sql_literal
from coordinator_state.replay.groups import EXTERNAL

MOST_RECORDS: Final = 3
"""Evidence names at most this many places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One line of evidence.

    `at` is when it began and `last_at` when it was last seen, both None if it has no moment.
    `record_ids` are places in the log (log partition and record offset), `sql` a query that shows
    it, and `commands` command lines that act on it. `is_event` is true for something that happened,
    as opposed to something that still holds.
    """

    cause: Cause
    text: str
    at: datetime | None = None
    last_at: datetime | None = None
    record_ids: Sequence[RecordId] = ()
    sql: str | None = None
    commands: Sequence[str] = ()
    is_event: bool = False

    @property
    def is_range(self) -> bool:
        """Whether its records are the first and the last of several."""
        return len(self.record_ids) == 2 and (self.is_event or self.last_at is not None)


def record_ids_of(rows: Sequence[Row]) -> Sequence[RecordId]:
    """The places of events: all of them if they are few, else the first and the last.

    Events of external groups have none: their offsets are in no log.
    """
    of_kafka = [row for row in rows if row["group_type"] != EXTERNAL]
    record_ids = list(
        dict.fromkeys((row["log_partition"], row["record_offset"]) for row in of_kafka)
    )
    return record_ids if len(record_ids) <= MOST_RECORDS else [record_ids[0], record_ids[-1]]


def when(moment: datetime | None, facts: GroupFacts) -> str:
    """A moment for people, in UTC."""
    return "an unknown time" if moment is None else moment_text(moment, facts.at)


def dated(text: str, first: datetime | None, last: datetime | None, facts: GroupFacts) -> str:
    """The text of an event with its moment, or the first and last moments of several events."""
    if first is None or last is None:
        return text
    begin, end = moment_text(first, facts.at), moment_text(last, facts.at)
    if begin == end:
        return f"{begin}: {text}"
    return f"{begin.removesuffix(' UTC')} to {end}: {text}"


def topic_names(partitions: Sequence[Partition]) -> str:
    """The topics of partitions, a few of them."""
    return ", ".join(sorted({partition.topic for partition in partitions})[:MOST_RECORDS])


def places_text(partitions: Sequence[Partition]) -> str:
    """Partitions by name, or their number and the first of them."""
    if len(partitions) <= MOST_RECORDS:
        return ", ".join(partition.place for partition in partitions)
    return f"any of {len(partitions)} partitions such as {partitions[0].place}"


def group_sql(facts: GroupFacts, table: str, order: str = "") -> str:
    """The query for the rows of the group in a table or view."""
    return _select("*", table, _of_group(facts), order)


def commits_sql(facts: GroupFacts, more: str = "") -> str:
    """The query for the newest commits of the group, with one more condition."""
    where = f"{_of_group(facts)} AND {more}" if more else _of_group(facts)
    return _select("*", "offset_commits", where, "record_offset DESC LIMIT 100")


def records_sql(facts: GroupFacts, evidence: Evidence) -> str | None:
    """The query for the records of evidence, or for its rows if it has no records."""
    if not evidence.record_ids or evidence.cause is Cause.OPEN_TRANSACTION:
        # A pending commit is in the history only after the end of its transaction.
        return evidence.sql
    log_partition = evidence.record_ids[0][0]
    offsets = [record_offset for _, record_offset in evidence.record_ids]
    place = f"record_offset IN ({', '.join(map(str, offsets))})"
    if evidence.is_range:
        place = f"record_offset BETWEEN {min(offsets)} AND {max(offsets)}"
    where = f"log_partition = {log_partition} AND {place} AND {_of_group(facts)}"
    return _select("*", _TABLES.get(evidence.cause, "offset_commits"), where, "record_offset")


_TABLES: Final = {
    **dict.fromkeys(
        [
            *(Cause.OFFSET_REWIND, Cause.OFFSET_RESET, Cause.OFFSET_EXPIRED, Cause.OFFSET_DELETED),
            *(Cause.NO_MEMBERS, Cause.DEPLOY, Cause.REBALANCES, Cause.MEMBERS_LEFT),
            Cause.TRANSACTION_HUNG,
        ],
        "group_events",
    ),
    Cause.GROUP_DELETED: "group_records",
}
"""Where the records of a cause are, if they are no commits."""


def around_sql(facts: GroupFacts, moment: datetime, margin: timedelta) -> str:
    """The query for the commits of the group around a moment."""
    begin, end = (time.isoformat(timespec="seconds") for time in (moment - margin, moment + margin))
    during = f"commit_timestamp BETWEEN TIMESTAMPTZ '{begin}' AND TIMESTAMPTZ '{end}'"
    where = f"{_of_group(facts)} AND {during}"
    return _select("*", "offset_commits", where, "record_offset LIMIT 1000")


def partition_sql(partition: Partition) -> str:
    """The condition for the rows of a partition."""
    return f"topic = {sql_literal(partition.topic)} AND partition = {partition.partition}"


def samples_sql(partitions: Sequence[Partition]) -> str:
    """The query for the offset samples of the topics of partitions."""
    topics = ", ".join(
        sql_literal(topic) for topic in sorted({partition.topic for partition in partitions})
    )
    columns = "topic, partition, sampled_at, topic_id, log_start_offset, log_end_offset"
    where, order = f"topic IN ({topics})", "topic, partition, sampled_at"
    return _select(columns, "log_offsets", where, order)


def _select(columns: str, table: str, where: str, order: str) -> str:
    parts = ["SELECT", columns, "FROM", table, "WHERE", where]
    return " ".join([*parts, "ORDER BY", order] if order else parts)


def _of_group(facts: GroupFacts) -> str:
    return f"group_id = {sql_literal(facts.group_id)}"
