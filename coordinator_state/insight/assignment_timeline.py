"""Who owned each partition of a group over time, from the rows of `group_events`.

The owner of a partition is the member that the assignment names: in classic groups the assignment
that ended a rebalance, in other groups the target assignment. The log does not say when a member
began to read. A classic group writes one record at the end of a rebalance, so the pause within a
rebalance is not in the log. Only times at which no partition has an owner are known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from coordinator_state.insight.assignment_replay import (
    AssignmentReplay,
    LaneKey,
    Row,
    Seat,
    Segment,
    Standstill,
    lane_keys,
    member_lanes,
)
from coordinator_state.insight.group_events import EventName
from coordinator_state.replay.groups import CLASSIC

TIMELINE_EVENTS: Final = (
    *(EventName.GROUP_CREATED, EventName.GROUP_DELETED, EventName.REBALANCE),
    *(EventName.MEMBER_JOINED, EventName.MEMBER_LEFT, EventName.ASSIGNMENT_CHANGED),
)
"""The events that a timeline is made of."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Partitions with the same owners all the time; the segments are in order and do not overlap.

    Between segments the partitions had no owner.
    """

    keys: tuple[LaneKey, ...]
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """A new generation or group epoch, and the members that joined and left since the last one.

    `assigned_at` is when the last member got its new target; None in classic groups, whose record
    of a generation has the assignment.
    """

    at: datetime
    epoch_before: int | None
    epoch_after: int
    joined: tuple[str, ...]
    left: tuple[str, ...]
    assigned_at: datetime | None


class MemberChange(NamedTuple):
    """A member joined or left."""

    at: datetime
    member_id: str
    is_join: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Members that took each other's place; `owned` is the time with at least one partition."""

    client_id: str | None
    group_instance_id: str | None
    member_ids: tuple[str, ...]
    owned: timedelta
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentTimeline:
    """The timeline of a group.

    The owners with the most time come first; `owner_of` has the place of that of each member id.
    """

    since: datetime
    until: datetime
    group_type: str | None
    lanes: Sequence[Lane]
    owners: Sequence[Owner]
    owner_of: Mapping[str, int]
    rebalances: Sequence[Rebalance]
    changes: Sequence[MemberChange]
    standstills: Sequence[Standstill]

    @property
    def stood_still(self) -> timedelta:
        """How long no partition had an owner."""
        return sum(
            (standstill.end - standstill.begin for standstill in self.standstills), timedelta()
        )


def assignment_timeline(
    events: Iterable[Row], members: Iterable[Row], *, since: datetime, until: datetime
) -> AssignmentTimeline:
    """Replay the events of one group.

    Args:
        events: rows of `group_events` of `TIMELINE_EVENTS`. They may begin before `since`.
        members: rows of `group_members` at `since`. They may lack the events before `since`, as
            long as `events` has these: an event sets the assignment of its member.
        since: the begin of the timeline.
        until: its end.
    """
    timed = [(at, row) for at, row in _timed(events) if at <= until]
    replay = AssignmentReplay(since)
    replay.exists = not timed or timed[0][1]["event"] != EventName.GROUP_CREATED
    for member in _at_begin([row for _, row in timed], members):
        replay.seats.take(member)
        replay.hold(member["member_id"], member["lanes"])
    for at, row in timed:
        replay.advance(at)
        replay.apply(row)
    replay.advance(until)
    replay.end()
    changes = [
        MemberChange(at, row["member_id"], row["event"] == EventName.MEMBER_JOINED)
        for at, row in timed
        if at >= since and row["event"] in (EventName.MEMBER_JOINED, EventName.MEMBER_LEFT)
    ]
    owners, owner_of = _owners(replay, {change.member_id for change in changes})
    return AssignmentTimeline(
        since=since,
        until=until,
        group_type=timed[-1][1]["group_type"] if timed else None,
        lanes=_lanes(replay.segments),
        owners=owners,
        owner_of=owner_of,
        rebalances=[rebalance for rebalance in _rebalances(timed) if rebalance.at >= since],
        changes=changes,
        standstills=[standstill for standstill in replay.standstills if replay.segments],
    )


def _timed(events: Iterable[Row]) -> Iterator[tuple[datetime, Row]]:
    """Rows in log order, with times that never go back: clocks of brokers differ."""
    newest: datetime | None = None
    for row in sorted(events, key=_log_order):
        at = row["record_timestamp"]
        newest = at if newest is None else max(newest, at or newest)
        if newest is not None:
            yield newest, row


def _log_order(row: Row) -> tuple[int, int, int]:
    return row["log_partition"], row["record_offset"], row["event_number"]


def _at_begin(rows: Sequence[Row], members: Iterable[Row]) -> list[Row]:
    """The members before the first event, with their partitions as `lanes`.

    A member that is in none of the given rows, and did not join, was there before: its first
    assignment event has its earlier assignment.
    """
    members_by_id = {row["member_id"]: {**row, "lanes": member_lanes(row)} for row in members}
    new = set(members_by_id)
    for row in rows:
        member_id = row["member_id"]
        if row["event"] == EventName.MEMBER_JOINED:
            new.add(member_id)
        if member_id is None or member_id in new:
            continue
        before = lane_keys(row["assignment_before"], row["tasks_before"])
        members_by_id.setdefault(member_id, {**row, "lanes": before})
        if row["event"] == EventName.ASSIGNMENT_CHANGED:
            new.add(member_id)
    return sorted(
        members_by_id.values(),
        key=lambda row: (not row["lanes"], sorted(row["lanes"])[:1], row["member_id"]),
    )


def _lanes(segments: Mapping[LaneKey, Sequence[Segment]]) -> list[Lane]:
    alike: dict[tuple[Segment, ...], list[LaneKey]] = defaultdict(list)
    for key in sorted(segments):
        alike[tuple(segments[key])].append(key)
    return [Lane(tuple(keys), of_all) for of_all, keys in alike.items()]


def _owners(replay: AssignmentReplay, changed: set[str]) -> tuple[list[Owner], dict[str, int]]:
    """The owners that were there during the timeline, those with the most time first."""
    times: dict[int, list[Segment]] = defaultdict(list)
    lanes: dict[int, set[LaneKey]] = defaultdict(set)
    for lane, segments in replay.segments.items():
        for segment in segments:
            for member_id in segment.owners:
                place = id(replay.seats.of[member_id])
                times[place].append(segment)
                lanes[place].add(lane)
    seat_owners = [
        _owner(seat, times[id(seat)], len(lanes[id(seat)]))
        for seat in replay.seats.all
        if seat.present or id(seat) in lanes or changed & set(seat.member_ids)
    ]
    owners = sorted(seat_owners, key=lambda owner: -owner.owned)
    owner_of = {name: number for number, owner in enumerate(owners) for name in owner.member_ids}
    return owners, owner_of


def _owner(seat: Seat, segments: Iterable[Segment], partitions: int) -> Owner:
    owned, until = timedelta(), None
    for begin, end, _ in sorted(segments):
        begin = begin if until is None else max(begin, until)
        owned += max(end - begin, timedelta())
        until = end if until is None else max(end, until)
    return Owner(
        client_id=seat.client_id,
        group_instance_id=seat.group_instance_id,
        member_ids=tuple(seat.member_ids),
        owned=owned,
        partitions=partitions,
    )


def _rebalances(timed: Sequence[tuple[datetime, Row]]) -> Iterator[Rebalance]:
    """The rebalances, each with the joins and leaves up to its record."""
    places = [number for number, (_, row) in enumerate(timed) if _is_rebalance(row)]
    begin = 0
    for number, place in enumerate(places):
        at, row = timed[place]
        record, next_place = row["record_offset"], (*places, len(timed))[number + 1]
        end = place + 1
        while end < next_place and timed[end][1]["record_offset"] == record:
            end += 1
        changes = [event for _, event in timed[begin:end]]
        assigned = [
            when
            for when, event in timed[place:next_place]
            if event["event"] == EventName.ASSIGNMENT_CHANGED
        ]
        yield Rebalance(
            at=at,
            epoch_before=row["epoch_before"],
            epoch_after=row["epoch_after"],
            joined=_members(changes, EventName.MEMBER_JOINED),
            left=_members(changes, EventName.MEMBER_LEFT),
            assigned_at=assigned[-1] if assigned and row["group_type"] != CLASSIC else None,
        )
        begin = end


def _is_rebalance(row: Row) -> bool:
    return bool(row["event"] == EventName.REBALANCE)


def _members(rows: Iterable[Row], event: EventName) -> tuple[str, ...]:
    return tuple(row["member_id"] for row in rows if row["event"] == event)
