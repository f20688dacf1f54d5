"""The facts about a group for its explanation, gathered from the tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import with_columns
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_facts import (
    Commit,
    GroupDeletion,
    GroupFacts,
    PartitionHistory,
    UncommittedPartition,
)
from coordinator_state.insight.group_status import HEALTHY, Cause, Status
from coordinator_state.records.record_types import GROUP_METADATA_TYPE
from coordinator_state.replay.group_replay import MODERN_GROUPS
from coordinator_state.replay.groups import EXTERNAL, NO_RECORD_OFFSET
from coordinator_state.replay.modern_groups import Part
from coordinator_state.replay.offsets import Outcome
from coordinator_state.replay.partitioner import partition_for
from streaming.lag.deleted_topics import KnownTopics, without_first_in_new_topics
from streaming.lag.evaluation import Evaluation
from streaming.lag.freshness import Freshness
from streaming.lag.lag_history import lag_histories
from streaming.lag.open_transactions import open_transactions
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    COORDINATOR_RECORDS,
    GROUP_EVENTS,
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUPS,
    OFFSET_COMMITS,
    STATUS_CHANGES,
)

WINDOW: Final = timedelta(hours=1)
"""The time before the moment in which causes are looked for."""
EVERY: Final = timedelta(seconds=30)

Row = dict[str, Any]
Place = tuple[str, int]
_COMMITS: Final = (
    *("log_partition", "record_offset", "topic", "partition", "committed_offset", "outcome"),
    "commit_timestamp",
)


def group_facts(
    reader: TableReader, group_id: str, *, at: datetime | None = None, window: timedelta = WINDOW
) -> GroupFacts | None:
    """The facts about a group at a moment; None if the tables know nothing of the group.

    A group that does not exist any more has facts if it had events in the window.
    """
    now = at or reader.moment
    since = now - window
    log_partition = partition_for(group_id, reader.log_partitions)
    own: list[tuple[str, str, Any]]
    own = [("group_id", "=", group_id), ("log_partition", "=", log_partition)]
    group = next(iter(reader.read(GROUPS.name, filters=own).to_pylist()), None)
    # Events and commits have times of the brokers, unless no broker has them.
    is_external = group is not None and group["group_type"] == EXTERNAL
    skew = timedelta() if is_external else reader.clock_skew
    first, last = since + skew, now + skew
    during = [
        *(("day", ">=", first.date()), ("record_timestamp", ">=", first)),
        ("record_timestamp", "<=", last),
    ]
    events = _events(reader, now, [*during, *own], skew)
    if group is None and not events:
        return None
    no_tombstones = ("is_tombstone", "=", False)
    commits = reader.read(OFFSET_COMMITS.name, _COMMITS, [*during, *own, no_tombstones])
    commits = _earlier(commits, "commit_timestamp", skew)
    evaluation = Evaluation.read(reader, at=now, group_ids=[group_id])
    lags, statuses = evaluation.lags, evaluation.statuses.to_pylist()
    status = statuses[0] if statuses else _deleted()
    ends = _ends_of_statuses(reader, group_id, since, now)
    offsets = reader.read(GROUP_OFFSETS.name, filters=own)
    offsets = _earlier(offsets, "commit_timestamp", skew).to_pylist()
    return GroupFacts(
        group_id=group_id,
        at=now,
        since=since,
        known_until=min(
            (at for at in lags["known_until"].to_pylist() if at is not None),
            default=_written_at(reader, now),
        ),
        group_type=None if group is None else group["group_type"],
        is_simple=group is not None and group["record_offset"] == NO_RECORD_OFFSET,
        status=status["status"],
        reason=status["reason"],
        cause=_cause(status),
        rules=evaluation.rules,
        is_healthy=Status(status["status"]) in HEALTHY,
        lag=status["lag"],
        partitions=_partitions(offsets, lags.to_pylist(), commits),
        uncommitted=_uncommitted(lags),
        transactions=[transaction for transaction, _ in open_transactions(reader, own)],
        deleted=_deletion(reader, own, since, events),
        members=reader.read(GROUP_MEMBERS.name, _MEMBER, own).to_pylist(),
        events=sorted(events, key=lambda row: (row["record_offset"], row["event_number"])),
        series=lag_histories(reader, [group_id], since=since, until=now, every=EVERY)[group_id],
        in_range_since=ends.get(Status.OUT_OF_RANGE),
        loop_ended_at=ends.get(Status.REBALANCING_LOOP),
    )


def _events(
    reader: TableReader, now: datetime, filters: list[tuple[str, str, Any]], skew: timedelta
) -> list[Row]:
    events = reader.read(GROUP_EVENTS.name, filters=filters).sort_by("record_offset")
    is_move = pc.is_in(events["event"], pa.array(_MOVES))
    moves = without_first_in_new_topics(reader, now, events.filter(is_move), KnownTopics())
    rows = pa.concat_tables([events.filter(pc.invert(is_move)), moves])
    return _earlier(rows, "record_timestamp", skew).to_pylist()


_MOVES: Final = [EventName.OFFSET_REWIND.value, EventName.OFFSET_RESET.value]


def _ends_of_statuses(
    reader: TableReader, group_id: str, since: datetime, now: datetime
) -> dict[str, datetime]:
    """The time of the last recorded change from each status, also in a partition."""
    during: list[tuple[str, str, Any]] = [
        *(("day", ">=", since.date()), ("changed_at", ">=", since), ("changed_at", "<=", now)),
        ("group_id", "=", group_id),
    ]
    changes = reader.read(STATUS_CHANGES.name, ["status_before", "changed_at"], during)
    rows = changes.sort_by("changed_at").to_pylist()
    return {row["status_before"]: row["changed_at"] for row in rows}


def _cause(verdict: Row) -> Cause | None:
    return None if verdict["cause"] is None else Cause(verdict["cause"])


def _earlier(rows: pa.Table, name: str, skew: timedelta) -> pa.Table:
    """Rows whose column of times by the brokers' clock is by the clock of `run`."""
    return with_columns(rows, {name: pc.subtract(rows[name], pa.scalar(skew))}) if skew else rows


_MEMBER: Final = ["group_id", "member_id", "client_id", "client_host"]


def _written_at(reader: TableReader, now: datetime) -> datetime:
    """The last write of tables with samples; without samples a quiet topic writes nothing."""
    fresh = Freshness.of(reader, now)
    if fresh.written_at is None or not fresh.is_sampled:
        return now
    return min(fresh.written_at, now)


def _deletion(
    reader: TableReader, own: list[tuple[str, str, Any]], since: datetime, events: Sequence[Row]
) -> GroupDeletion | None:
    """The newest deletion of the group.

    A group known only from its offsets has no event; its tombstone is a record of no group.
    """
    columns = ["log_partition", "record_offset", "record_timestamp", "is_tombstone"]
    deletions = [row for row in events if row["event"] == EventName.GROUP_DELETED]
    if not deletions:
        of_group = [*own, ("record_type", "in", _GROUP_RECORD_TYPES)]
        records = reader.read(COORDINATOR_RECORDS.name, columns, of_group).to_pylist()
        if all(row["is_tombstone"] for row in records):
            deletions = [row for row in records if (row["record_timestamp"] or since) >= since]
    last = max(deletions, key=lambda row: row["record_offset"], default=None)
    if last is None:
        return None
    return GroupDeletion((last["log_partition"], last["record_offset"]), last["record_timestamp"])


_GROUP_RECORD_TYPES: Final = [
    GROUP_METADATA_TYPE,
    *(number for number, group in MODERN_GROUPS.items() if group.parts[number] is Part.GROUP),
]


def _deleted() -> Row:
    reason = "the group does not exist any more"
    return {"status": Status.IDLE.value, "reason": reason, "cause": None, "lag": None}


# --- partitions


def _partitions(
    offsets: Sequence[Row], lags: Sequence[Row], commits: pa.Table
) -> list[PartitionHistory]:
    commits_by_place: dict[Place, list[Row]] = defaultdict(list)
    for row in commits.sort_by("record_offset").to_pylist():
        commits_by_place[row["topic"], row["partition"]].append(row)
    lag_by_place = {(row["topic"], row["partition"]): row for row in lags}
    histories = []
    for row in sorted(offsets, key=lambda row: (row["topic"], row["partition"])):
        place = row["topic"], row["partition"]
        if place in lag_by_place:
            histories.append(_history(row, lag_by_place[place], commits_by_place[place]))
    return histories


def _history(offset: Row, lag: Row, commits: Iterable[Row]) -> PartitionHistory:
    last = _commit(offset)
    by_outcome: dict[str, list[Commit]] = defaultdict(list)
    for row in commits:
        by_outcome[row["outcome"]].append(_commit(row))
    applied = sorted({last, *by_outcome[Outcome.COMMITTED.value]})
    same = 1
    while same < len(applied) and applied[-same - 1].committed_offset == last.committed_offset:
        same += 1
    intervals = [(after.at - before.at).total_seconds() for before, after in pairwise(applied)]
    # The evaluation measures the pace where a status depends on it; of the others it is not known.
    usual_ms = lag["usual_commit_ms"]
    is_unmeasured = usual_ms is None and Status(lag["status"]) in HEALTHY
    return PartitionHistory(
        **_partition(lag),
        **{name: lag[name] for name in ("log_end_offset", "data_lost", "retention_margin_ms")},
        waiting_ms=lag["time_lag_at_least_ms"],
        last=last,
        same=same,
        same_since=applied[-same],
        usual_commit_ms=1000 * median(intervals) if is_unmeasured and intervals else usual_ms,
        pause=max(pairwise(applied), key=lambda pair: pair[1].at - pair[0].at, default=None),
        aborted=[commit for commit in by_outcome[Outcome.ABORTED.value] if commit > last],
    )


def _uncommitted(lags: pa.Table) -> list[UncommittedPartition]:
    is_uncommitted = pc.and_(
        pc.is_null(lags["committed_offset"]), pc.is_valid(lags["uncommitted_since"])
    )
    return [
        UncommittedPartition(
            **_partition(row),
            **{name: row[name] for name in ("is_lag_lower_bound", "uncommitted_since")},
        )
        for row in lags.filter(is_uncommitted).to_pylist()
    ]


def _partition(lag: Row) -> Row:
    """The fields of `Partition` from a row of `group_lag`."""
    owner = None if lag["member_id"] is None else (lag["client_id"], lag["client_host"])
    own = {name: lag[name] for name in (*_OF_LAG, "status")}
    return {**own, "owner": owner, "cause": _cause(lag)}


_OF_LAG: Final = ("topic", "partition", "lag", "topic_state", "gone_since", "recreated_at")


def _commit(row: Row) -> Commit:
    return Commit(
        row["log_partition"], row["record_offset"], row["committed_offset"], row["commit_timestamp"]
    )
