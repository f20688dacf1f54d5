"""A group: its clients, and the members that its coordinator knows.

A client that crashes leaves a member behind until its session expires. All clients send a heartbeat
in each tick; a rebalance that waits for nobody completes in the same tick.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from coordinator_state.model.group_coordinator import GroupCoordinator, KnownGroup, Place
from coordinator_state.model.log import KeyAndValue, Producer

MAX_POLL_MS: Final = 300_000
"""Kafka's default of `max.poll.interval.ms`, the time-out of a rebalance."""
NO_EPOCH: Final = -1
_ROUNDS: Final = 6
"""The most heartbeats of a client in a tick."""

P = TypeVar("P")


@dataclass(slots=True, eq=False)
class Member:
    """A client, from its start to its end.

    Attributes:
        client_id: its client id.
        host: its host, as coordinators write it.
        instance_id: the id of a static member.
        member_id: the id in its group; empty until it joins.
        epoch: its generation or member epoch; `NO_EPOCH` until it has an assignment.
        places: the partitions that it has.
        last_heartbeat_ms: the time of its last heartbeat.
    """

    client_id: str
    host: str
    instance_id: str | None = None
    member_id: str = ""
    epoch: int = NO_EPOCH
    places: list[Place] = field(default_factory=list)
    last_heartbeat_ms: int = 0

    @property
    def name(self) -> str:
        """The name that outlives a member id."""
        return self.instance_id or self.member_id


class Group(KnownGroup):
    """A group with its clients.

    Args:
        coordinator: the coordinator, at the current time.
        group_id: the group.
        topics: the names of the subscribed topics.
        before_revoking: called before a member gives its partitions back.
        session_timeout_ms: the time after its last heartbeat when a member is removed.

    Attributes:
        live: the clients that run.
        members: the members that the coordinator knows, by member id.
    """

    def __init__(
        self,
        coordinator: GroupCoordinator,
        group_id: str,
        topics: Sequence[str],
        before_revoking: Callable[[Member], None] = lambda _member: None,
        *,
        session_timeout_ms: int = 45_000,
    ) -> None:
        self.coordinator = coordinator
        self.group_id = group_id
        self.topics = list(topics)
        self.live: list[Member] = []
        self.members: dict[str, Member] = {}
        self._before_revoking = before_revoking
        self._session_timeout_ms = session_timeout_ms
        self.reset()

    # --- clients

    def places(self) -> list[Place]:
        """All partitions of the subscribed topics."""
        by_name = self.coordinator.topics.by_name
        return [
            (topic, partition)
            for topic in self.topics
            if topic in by_name
            for partition in range(by_name[topic].partitions)
        ]

    @property
    def is_empty(self) -> bool:
        return not self.members

    def has(self, member: Member) -> bool:
        """Whether the coordinator knows a client as a member."""
        return self.members.get(member.member_id) is member

    def start(self, member: Member) -> None:
        """Start a client, which joins in the next tick."""
        self.live.append(member)

    def crash(self, member: Member) -> None:
        """A client dies; the coordinator notices that when its session expires."""
        self.live.remove(member)

    def leave(self, member: Member, *, for_good: bool = False) -> None:
        """A member commits, and leaves; a static one may return unless it leaves for good."""
        self._before_revoking(member)
        if self.has(member):
            if member.instance_id is None or for_good:
                self._remove([member])
            else:
                self._leave_for_now(member)
        self.live.remove(member)

    def tick(self) -> None:
        """Expire sessions, and let all clients send heartbeats until none changes anything."""
        now_ms = self.coordinator.now_ms
        expired = [
            member
            for member in self.members.values()
            if member not in self.live
            and now_ms >= member.last_heartbeat_ms + self._session_timeout_ms
        ]
        if expired:
            self._remove(expired)
        for member in self.live:
            member.last_heartbeat_ms = now_ms
        for _ in range(_ROUNDS):
            if not self._step():
                break

    @property
    def is_settled(self) -> bool:
        """Whether no client waits for its assignment."""
        return all(map(self.has, self.live))

    def commit(
        self,
        offsets: Mapping[Place, int],
        member: Member | None = None,
        producer: Producer | None = None,
    ) -> bool:
        """Commit offsets, if the client is a member, or if nobody is."""
        if member is None or not member.member_id:
            is_accepted = not self.members
        else:
            is_accepted = self.has(member) and member.epoch > 0
        if is_accepted:
            self.coordinator.groups.setdefault(self.group_id, self)
            self.coordinator.commit(self.group_id, offsets, producer)
        return is_accepted

    # --- what a type of group does

    @property
    @abstractmethod
    def state(self) -> str:
        """The state, as a broker describes the group."""

    @abstractmethod
    def _step(self) -> bool:
        """The next heartbeats of all clients; returns whether something changed."""

    @abstractmethod
    def _leave_for_now(self, member: Member) -> None:
        """A static member stops and may return."""

    @abstractmethod
    def _remove(self, members: Sequence[Member]) -> None:
        """Remove members that left, or whose session expired."""

    def _append(self, records: Sequence[KeyAndValue]) -> None:
        """Append records of the group; it replaces an empty one of another type."""
        groups = self.coordinator.groups
        replaced = groups.get(self.group_id, self)
        tombstones = []
        if replaced is not self:
            tombstones = replaced.tombstones()
            replaced.reset()
        groups[self.group_id] = self
        self.coordinator.log.append([*tombstones, *records], self.coordinator.now_ms)

    def _static_member(self, instance_id: str | None) -> Member | None:
        members = self.members.values()
        return next((m for m in members if instance_id and m.instance_id == instance_id), None)

    def _replace(self, known: Member, member: Member) -> None:
        """Give a static member's place in the order to the client that returns for it."""
        self.members = {
            m.member_id: m for m in (member if m is known else m for m in self.members.values())
        }


def ranges(places: Sequence[P], members: Iterable[Member]) -> dict[str, Sequence[P]]:
    """Give each member a range of the partitions; return them by member id.

    A static member gets the same range when it returns.
    """
    ids = [member.member_id for member in sorted(members, key=lambda member: member.name)]
    count = len(places)
    return {
        member_id: places[n * count // len(ids) : (n + 1) * count // len(ids)]
        for n, member_id in enumerate(ids)
    }
