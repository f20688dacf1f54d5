"""Members of a group that take each other's place, as one owner.

A consumer that restarts is another member: brokers give it a new member id. A seat is the place of
a consumer in its group. A static member returns to the seat of its instance id. Other members take
a free seat of their client id, if possible one that a member of the same host left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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

    def take(self, member: Mapping[str, Any]) -> None:
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

    def _free(self, member: Mapping[str, Any]) -> Seat | None:
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

    def _new(self, member: Mapping[str, Any]) -> Seat:
        seat = Seat(member["client_id"], member["group_instance_id"], member["client_host"])
        self.all.append(seat)
        return seat
