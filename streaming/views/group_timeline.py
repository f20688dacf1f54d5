"""The timeline of a group: who owned its partitions, when nobody did, and when it rebalanced.

The owner of a partition is the member that the assignment names: in classic groups the assignment
that ended a rebalance, in other groups the target assignment. The log does not say when a member
began to read. A classic group writes one record at the end of a rebalance, so the pause within a
rebalance is not in the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.member_labels import labels_of
from coordinator_state.replay.groups import SHARE
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_EVENTS, GROUP_MEMBERS
from streaming.views.history import history
from streaming.views.query import asking

_MOST_EVENTS: Final = 20_000
_MOST_PERIODS: Final = 20_000
"""Of single partitions: a page has no room for more."""
_EVENTS: Final = (
    *(EventName.GROUP_CREATED, EventName.GROUP_DELETED, EventName.REBALANCE),
    *(EventName.MEMBER_JOINED, EventName.MEMBER_LEFT, EventName.ASSIGNMENT_CHANGED),
)
_BEHIND: Final = timedelta(minutes=5)
"""A snapshot lacks at most the events of this time before its moment."""
_NAMES: Final = ["member_id", "group_instance_id", "client_id"]
_MEMBER_COLUMNS: Final = [
    *_NAMES,
    *("assignment", "target_assignment", "tasks", "target_tasks"),
]


# Times never go back, because clocks of brokers differ. An event sets the assignment of its member,
# and a group that is created or deleted that of all members. A member that is not in group_members
# and did not join was there before: its first event has its earlier assignment.
# While the group does not exist, there is a period without a partition.
_PERIODS: Final = """
events AS (
  SELECT *, coalesce(group_instance_id, member_id) AS owner, row_number() OVER in_log AS number,
    max(record_timestamp) OVER in_log AS event_at
  FROM group_events
  WINDOW in_log AS (ORDER BY log_partition, record_offset, event_number)
), members AS (
  SELECT *, coalesce(group_instance_id, member_id) AS owner,
    target_assignment IS NOT NULL OR target_tasks IS NOT NULL AS has_target
  FROM group_members
), first_changes AS (
  SELECT * FROM events WHERE member_id NOT IN (SELECT member_id FROM members)
  QUALIFY row_number() OVER (PARTITION BY member_id ORDER BY number) = 1
), states AS (
  SELECT 0 AS number, since AS event_at, member_id, owner,
    if(has_target, target_assignment, assignment) AS assignment,
    if(has_target, target_tasks, tasks) AS tasks
  FROM members, bounds
  UNION ALL
  SELECT 0, since, member_id, owner, assignment_before, tasks_before FROM first_changes, bounds
  WHERE event = 'assignment_changed'
  UNION ALL
  SELECT number, event_at, member_id, owner, assignment_after, tasks_after FROM events
  WHERE event IN ('member_left', 'assignment_changed')
  UNION ALL
  SELECT number, event_at, named.member_id, named.owner, NULL, NULL FROM events,
    (SELECT member_id, owner FROM members UNION SELECT member_id, owner FROM first_changes) AS named
  WHERE event IN ('group_created', 'group_deleted')
), held AS (
  SELECT owner, assignment, tasks, greatest(event_at, since) AS begin_at,
    lead(event_at, 1, until) OVER (PARTITION BY member_id ORDER BY number) AS end_at
  FROM states, bounds
), owned AS (
  SELECT owner, begin_at, end_at, unnest(list_concat(
    [{'topic': coalesce(a.topic, a.topic_id, '?'), 'partition': a.partition} FOR a IN assignment],
    [{'topic': 'subtopology ' || t.subtopology_id, 'partition': t.partition}
      FOR t IN tasks IF t.task_type = 'active'])) AS partition
  FROM held WHERE begin_at < end_at
), numbered AS (
  SELECT *, begin_at IS DISTINCT FROM lag(end_at) OVER by_time AS is_new FROM owned
  WINDOW by_time AS (PARTITION BY partition, owner ORDER BY begin_at)
), runs AS (
  SELECT *, count(*) FILTER (is_new) OVER by_time AS run FROM numbered
  WINDOW by_time AS (PARTITION BY partition, owner ORDER BY begin_at)
), existence AS (
  SELECT number, event_at, event FROM events WHERE event IN ('group_created', 'group_deleted')
  UNION ALL
  SELECT 0, since, 'group_deleted' FROM events, bounds
  WHERE number = 1 AND event = 'group_created'
)
SELECT partition, owner, min(begin_at) AS begin_at, max(end_at) AS end_at FROM runs
GROUP BY partition, owner, run
UNION ALL
(SELECT NULL, NULL, greatest(event_at, since), lead(event_at, 1, until) OVER (ORDER BY number)
FROM existence, bounds QUALIFY event = 'group_deleted')
ORDER BY ALL
"""
_REBALANCES: Final = """
SELECT max(record_timestamp) OVER in_log AS event_at, epoch_after FROM group_events, bounds
WINDOW in_log AS (ORDER BY log_partition, record_offset, event_number)
QUALIFY event = 'rebalance' AND event_at >= since
ORDER BY ALL
"""


class Period(NamedTuple):
    """A time in which a partition had an owner: a member id, or an instance id."""

    begin_at: datetime
    end_at: datetime
    owner: str


class Lane(NamedTuple):
    """Partitions with the same owners all the time, each with `topic` and `partition`.

    Between the periods, which are in order, they had no owner. The members of a share group share
    partitions, so each member has lanes of its own.
    """

    partitions: Sequence[Mapping[str, Any]]
    periods: Sequence[Period]


class Rebalance(NamedTuple):
    """A new generation or group epoch."""

    event_at: datetime
    epoch_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTimeline:
    """The timeline of a group from `since`, which is later than asked if the tables begin later.

    `standstills` are the begins and ends of times in which the group existed and none of its
    partitions had an owner; none if no partition ever had. `names` has the name of each owner.
    """

    since: datetime
    until: datetime
    group_type: str | None
    lanes: Sequence[Lane]
    standstills: Sequence[tuple[datetime, datetime]]
    rebalances: Sequence[Rebalance]
    names: Mapping[str, str]


def group_timeline(
    reader: TableReader, group_id: str, *, since: datetime, until: datetime
) -> GroupTimeline | None:
    """The timeline of a group in a period; None if it has too many events to be shown."""
    selected = history(
        reader,
        "group_events",
        group=group_id,
        events=_EVENTS,
        since=since - _BEHIND,
        until=until,
        limit=_MOST_EVENTS,
    )
    if selected.more:
        return None
    events = selected.rows
    first = events["record_timestamp"][:1].to_pylist()
    begin = min(max(since, min([reader.begins_at, *first])), until)
    members = _members_at(reader, group_id, begin)
    if members is None:
        # Members without an event were there all the time.
        last = _members_at(reader, group_id, until)
        members = last and last.filter(pc.invert(pc.is_in(last["member_id"], events["member_id"])))
    group_types = [
        *reader.own("groups", ["group_type"], [group_id])["group_type"].to_pylist(),
        *events["group_type"][-1:].to_pylist(),
        None,
    ]
    return timeline_of(
        events,
        GROUP_MEMBERS.schema.empty_table() if members is None else members,
        group_type=group_types[0],
        since=begin,
        until=until,
    )


def timeline_of(
    events: pa.Table,
    members: pa.Table,
    *,
    group_type: str | None,
    since: datetime,
    until: datetime,
) -> GroupTimeline | None:
    """Derive the timeline of one group; None if it has too many periods to be shown.

    Args:
        events: rows of `group_events`, which may begin before `since`.
        members: rows of `group_members` at `since`. They may lack the events before `since`, as
            long as `events` has these.
        group_type: the type of the group.
        since: the begin of the timeline.
        until: its end.
    """
    bounds = (
        f"WITH bounds AS (SELECT TIMESTAMPTZ '{since.isoformat()}' AS since, "
        f"TIMESTAMPTZ '{until.isoformat()}' AS until)"
    )
    with asking({GROUP_EVENTS.name: events, GROUP_MEMBERS.name: members}.__getitem__) as ask:
        rows = ask(f"{bounds}, {_PERIODS} LIMIT {_MOST_PERIODS + 1}").to_pylist()
        rebalances = ask(f"{bounds} {_REBALANCES}").to_pylist()
    if len(rows) > _MOST_PERIODS:
        return None
    named = [*events.select(_NAMES).to_pylist(), *members.select(_NAMES).to_pylist()]
    labels = labels_of({**row, "group_id": ""} for row in named)
    instances = [row["group_instance_id"] for row in named if row["group_instance_id"] is not None]
    lanes = _lanes(rows, is_shared=group_type == SHARE)
    return GroupTimeline(
        since=since,
        until=until,
        group_type=group_type,
        lanes=lanes,
        standstills=_gaps(rows, since, until) if lanes else [],
        rebalances=[Rebalance(**rebalance) for rebalance in rebalances],
        names={member_id: label for (_, member_id), label in labels.items()}
        | {instance: instance for instance in instances},
    )


def _lanes(rows: Iterable[Mapping[str, Any]], *, is_shared: bool) -> list[Lane]:
    periods: dict[tuple[str, int, str | None], list[Period]] = defaultdict(list)
    for row in rows:
        if (place := row["partition"]) is not None:
            key = place["topic"], place["partition"], row["owner"] if is_shared else None
            periods[key].append(Period(row["begin_at"], row["end_at"], row["owner"]))
    alike: dict[tuple[Period, ...], list[dict[str, Any]]] = defaultdict(list)
    for (topic, partition, _), unsorted in periods.items():
        alike[tuple(sorted(unsorted))].append({"topic": topic, "partition": partition})
    return [Lane(partitions, in_order) for in_order, partitions in alike.items()]


def _gaps(
    rows: Iterable[Mapping[str, Any]], since: datetime, until: datetime
) -> list[tuple[datetime, datetime]]:
    """The times within no period."""
    gaps, end = [], since
    periods = sorted((row["begin_at"], row["end_at"]) for row in rows)
    for begin_at, end_at in [*periods, (until, until)]:
        if end < begin_at:
            gaps.append((end, begin_at))
        end = max(end, end_at)
    return gaps


def _members_at(reader: TableReader, group_id: str, moment: datetime) -> pa.Table | None:
    """The members at a moment; None if the tables do not reach back to it."""
    at: TableReader | None = reader
    if moment < reader.moment:
        history_reader = reader.with_history(
            since=moment, until=moment, group_ids=[group_id], prefers_snapshots=True, keeps=()
        )
        at = history_reader.before(moment)
    return at and at.own(GROUP_MEMBERS.name, _MEMBER_COLUMNS, [group_id])
