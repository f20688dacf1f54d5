"""A replay of the assignments of a group: which member owns each partition, moment by moment.

A consumer that restarts is another member: brokers give it a new member id. A seat is the place of
a consumer in its group. A static member returns to the seat of its instance id. Other members take
a free seat of their client id, if possible one that a member of the same host left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from coordinator_state.insight.group_events import EventName

Row: TypeAlias = Mapping[str, Any]
"""A row of `group_events`, or of `group_members`."""
_ACTIVE: Final = "active"


class LaneKey(NamedTuple):
    """A topic partition, or an active task of a streams group."""

    topic: str
    partition: int


class Segment(NamedTuple):
    """A time in which a partition had the same owners: member ids, several in share groups."""

    begin: datetime
    end: datetime
    owners: tuple[str, ...]


class Standstill(NamedTuple):
    """A time in which no partition had an owner."""

    begin: datetime
    end: datetime


@dataclass(slots=True)
class Seat:
    """The members that took one place in turn; `present` has those that hold it now."""

    client_id: str | None
    group_instance_id: str | None
    host: str | None
    member_ids: list[str] = field(default_factory=list)
    present: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Seats:
    """The seats of a group, in the order in which they were first taken."""

    all: list[Seat] = field(default_factory=list)
    of: dict[str, Seat] = field(default_factory=dict)
    """The seat of each member id that ever had one."""

    def take(self, member: Row) -> None:
        """Seat a member, a row with the columns that name one; a seated member stays."""
        member_id = member["member_id"]
        seat = self.of.get(member_id)
        if seat is None:
            seat = self._free(member) or self._new(member)
            seat.member_ids.append(member_id)
            self.of[member_id] = seat
        seat.host = member["client_host"]
        seat.present.add(member_id)

    def leave(self, member_id: str) -> None:
        """Free the seat of a member."""
        if member_id in self.of:
            self.of[member_id].present.discard(member_id)

    def leave_all(self) -> None:
        """Free all seats."""
        for seat in self.all:
            seat.present.clear()

    def _free(self, member: Row) -> Seat | None:
        instance = member["group_instance_id"]
        seats = [
            seat
            for seat in self.all
            if seat.group_instance_id == instance
            and (instance is not None or (seat.client_id == member["client_id"]))
            and not seat.present
        ]
        seats_of_host = (seat for seat in seats if seat.host == member["client_host"])
        return next(seats_of_host, seats[0] if seats else None)

    def _new(self, member: Row) -> Seat:
        seat = Seat(member["client_id"], member["group_instance_id"], member["client_host"])
        self.all.append(seat)
        return seat


@dataclass(slots=True)
class AssignmentReplay:
    """The owners at the moment `now`, which begins at the begin of the timeline."""

    now: datetime
    exists: bool = True
    seats: Seats = field(default_factory=Seats)
    holdings: dict[str, frozenset[LaneKey]] = field(default_factory=dict)
    owners: dict[LaneKey, set[str]] = field(default_factory=lambda: defaultdict(set))
    changed: set[LaneKey] = field(default_factory=set)
    """The partitions with other owners since `now` was set."""
    open: dict[LaneKey, tuple[datetime, tuple[str, ...]]] = field(default_factory=dict)
    segments: dict[LaneKey, list[Segment]] = field(default_factory=lambda: defaultdict(list))
    still_since: datetime | None = None
    standstills: list[Standstill] = field(default_factory=list)

    def advance(self, to: datetime) -> None:
        """Go to a later moment. Events of one moment change owners at once."""
        if to <= self.now:
            return
        self._settle()
        self.now = to

    def apply(self, row: Row) -> None:
        """Apply an event at the current moment."""
        match row["event"]:
            case EventName.MEMBER_JOINED:
                self.seats.take(row)
            case EventName.MEMBER_LEFT:
                self.seats.leave(row["member_id"])
                self.hold(row["member_id"], frozenset())
            case EventName.ASSIGNMENT_CHANGED:
                self.seats.take(row)
                after = lane_keys(row["assignment_after"], row["tasks_after"])
                self.hold(row["member_id"], after)
            case EventName.GROUP_CREATED | EventName.GROUP_DELETED:
                self.exists = row["event"] == EventName.GROUP_CREATED
                self.seats.leave_all()
                for member_id in list(self.holdings):
                    self.hold(member_id, frozenset())

    def hold(self, member_id: str, lanes: frozenset[LaneKey]) -> None:
        """Assign partitions to a member, and no others."""
        before = self.holdings.get(member_id, frozenset())
        for lane in before - lanes:
            self.owners[lane].discard(member_id)
        for lane in lanes - before:
            self.owners[lane].add(member_id)
        self.changed |= before ^ lanes
        self.holdings[member_id] = lanes

    def end(self) -> None:
        """Close the open segments."""
        for lane in [lane for lane, (_, owners) in self.open.items() if owners]:
            self._close(lane, ())
        if self.still_since is not None:
            self.standstills.append(Standstill(self.still_since, self.now))

    def _settle(self) -> None:
        for lane in self.changed:
            self._close(lane, tuple(sorted(self.owners[lane])))
        self.changed.clear()
        is_still = self.exists and not any(self.holdings.values())
        if is_still and self.still_since is None:
            self.still_since = self.now
        elif not is_still and self.still_since is not None:
            self.standstills.append(Standstill(self.still_since, self.now))
            self.still_since = None

    def _close(self, lane: LaneKey, owners: tuple[str, ...]) -> None:
        """End the segment of a partition, unless it goes on with the same owners."""
        begin, before = self.open.get(lane, (self.now, ()))
        if before == owners:
            return
        if before:
            self.segments[lane].append(Segment(begin, self.now, before))
        self.open[lane] = self.now, owners


def member_lanes(member: Row) -> frozenset[LaneKey]:
    """The partitions of a row of `group_members`: its target assignment if it has one."""
    is_target = member["target_assignment"] is not None or member["target_tasks"] is not None
    side = ("target_assignment", "target_tasks") if is_target else ("assignment", "tasks")
    return lane_keys(member[side[0]], member[side[1]])


def lane_keys(partitions: Iterable[Row] | None, tasks: Iterable[Row] | None) -> frozenset[LaneKey]:
    """The partitions of an assignment, or the active ones of tasks."""
    named = (
        LaneKey(partition["topic"] or partition.get("topic_id") or "?", partition["partition"])
        for partition in partitions or ()
    )
    active = (
        LaneKey(f"subtopology {task['subtopology_id']}", task["partition"])
        for task in tasks or ()
        if task["task_type"] == _ACTIVE
    )
    return frozenset((*named, *active))
