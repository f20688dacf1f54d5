"""A replay of the assignments of a group: which member owns each partition, moment by moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.owner_seats import Seats

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
