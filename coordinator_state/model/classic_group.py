"""A group of the classic protocol.

A rebalance waits until all members have joined, so for a crashed one until its session expires. The
first one of an empty group waits for `group.initial.rebalance.delay.ms`, and longer while members
join. Then the next generation starts, and the leader's assignment is in its GroupMetadata record.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`prepareRebalance`, `completeClassicGroupJoin`) and classic/ClassicGroup.java at 4.2.0;
GroupCoordinator.scala at 3.9.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from coordinator_state.model.group import MAX_POLL_MS, NO_EPOCH, Group, Member, ranges
from coordinator_state.model.group_coordinator import Place
from coordinator_state.model.log import KeyAndValue
from coordinator_state.model.records import group_metadata
from coordinator_state.records.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    encode_assignment,
    encode_subscription,
)
from coordinator_state.replay.offsets import CommittedOffset

INITIAL_DELAY_MS: Final = 3_000
"""Kafka's default of `group.initial.rebalance.delay.ms`."""
_VERSION: Final = 1
"""The version of subscriptions and assignments."""


class ClassicGroup(Group):
    """A group whose members use an eager assignor; without members it may be a simple group.

    Attributes:
        generation: the number of rebalances.
        protocol_type: `consumer` after the first join.
        assignments: the leader's assignment of the generation, by member id.
        is_rebalancing: whether a rebalance has begun and not completed.
    """

    _protocol = "range"

    def reset(self) -> None:
        self.members.clear()
        self.generation = 0
        self.protocol_type = ""
        self.assignments: dict[str, bytes] = {}
        self.is_rebalancing = False
        self._subscriptions: dict[str, bytes] = {}
        self._leader: Member | None = None
        self._state_timestamp_ms = self.coordinator.now_ms
        self._joined: set[Member] = set()
        """The members that have joined the next generation."""
        self._delayed_until_ms = 0
        """The end of the initial delay."""
        self._is_delayed_again = False

    @property
    def state(self) -> str:
        """The state; CompletingRebalance ends in the tick in which it begins."""
        if self.is_rebalancing:
            return "PreparingRebalance"
        return "Stable" if self.members else "Empty"

    @property
    def is_settled(self) -> bool:
        return super().is_settled and not self.is_rebalancing

    def tombstones(self) -> list[KeyAndValue]:
        """The tombstone; Kafka 3 writes none for a group that never had a generation."""
        is_never_stored = self.coordinator.is_scala and self.generation == 0
        return [] if is_never_stored else [group_metadata(self.group_id, None)]

    def expiry_base_ms(self, offset: CommittedOffset) -> int:
        if self.is_rebalancing:
            return self.coordinator.now_ms
        if self.members or not self.protocol_type:
            return offset.commit_timestamp_ms
        return self._state_timestamp_ms

    def rebalance(self) -> None:
        """The first client that is a member joins again, as after a change of the topics."""
        member = next(filter(self.has, self.live), None)
        if member is not None and not self.is_rebalancing:
            self._begin_rebalance()
            self._rejoin(member)

    # --- members join

    def _step(self) -> bool:
        for member in self.live:
            if not self.has(member):
                self._join(member)
        if not self.is_rebalancing or self._is_delayed():
            return False
        for member in self.live:
            if member not in self._joined:
                self._rejoin(member)
        if any(member not in self.live for member in self.members.values()):
            # A client has crashed, and its session has not expired yet.
            return False
        self._complete_rebalance()
        return True

    def _join(self, member: Member) -> None:
        member.member_id = f"{member.instance_id or member.client_id}-{self.coordinator.new_id()}"
        member.epoch, member.places = NO_EPOCH, []
        known = self._static_member(member.instance_id)
        if known is not None:
            self._return(known, member)
            return
        is_new = self.coordinator.groups.get(self.group_id) is not self
        if is_new and not self.coordinator.is_scala:
            self._state_timestamp_ms = self.coordinator.now_ms
            self._store()
        self._begin_rebalance()
        self.protocol_type = CONSUMER_PROTOCOL_TYPE
        self.members[member.member_id] = member
        self._rejoin(member)

    def _return(self, known: Member, member: Member) -> None:
        """A static member returns. A group that is not rebalancing keeps its generation."""
        self._replace(known, member)
        self._joined.discard(known)
        if self._leader is known:
            self._leader = member
        assignment = self.assignments.pop(known.member_id, b"")
        if self.is_rebalancing:
            self._rejoin(member)
            return
        member.epoch, member.places = known.epoch, known.places
        self.assignments[member.member_id] = assignment
        self._subscriptions[member.member_id] = self._subscription(member)
        self._store()

    def _rejoin(self, member: Member) -> None:
        """A member joins the next generation; an eager one gives its partitions back first."""
        self._give_back(member)
        self._subscriptions[member.member_id] = self._subscription(member)
        self._joined.add(member)

    def _give_back(self, member: Member) -> None:
        if member.places:
            self._before_revoking(member)
            member.places = []

    def _subscription(self, member: Member) -> bytes:
        fields = {"topics": self.topics, "userData": None, "ownedPartitions": _named(member.places)}
        return encode_subscription(fields, _VERSION)

    # --- members leave

    def _leave_for_now(self, member: Member) -> None:
        """Do nothing: the coordinator is not told."""

    def _remove(self, members: Sequence[Member]) -> None:
        for member in members:
            del self.members[member.member_id]
            self._joined.discard(member)
            if self._leader is member:
                self._leader = None
        if self.members:
            self._begin_rebalance()
        else:
            self._complete_rebalance()

    # --- rebalances

    def _begin_rebalance(self) -> None:
        """Begin a rebalance, or let more members join the current one."""
        now_ms = self.coordinator.now_ms
        if self.is_rebalancing:
            self._is_delayed_again = now_ms < self._delayed_until_ms
            return
        self.is_rebalancing, self._is_delayed_again = True, False
        self._joined.clear()
        delay_ms = 0 if self.members else INITIAL_DELAY_MS
        self._delayed_until_ms = now_ms + delay_ms

    def _is_delayed(self) -> bool:
        now_ms = self.coordinator.now_ms
        while self._is_delayed_again and self._delayed_until_ms <= now_ms:
            self._is_delayed_again = False
            self._delayed_until_ms += INITIAL_DELAY_MS
        return now_ms < self._delayed_until_ms

    def _complete_rebalance(self) -> None:
        """Start the next generation with the members that joined; without members it is Empty."""
        self.is_rebalancing = False
        self.generation += 1
        self._state_timestamp_ms = self.coordinator.now_ms
        members = list(self.members.values())
        if members and self._leader is None:
            self._leader = members[0]
        assigned = self._assign(members) if members else {}
        self.assignments = {
            member_id: encode_assignment(
                {"assignedPartitions": _named(places), "userData": None}, _VERSION
            )
            for member_id, places in assigned.items()
        }
        self._store()
        for member in members:
            member.epoch, member.places = self.generation, list(assigned[member.member_id])

    def _assign(self, members: Sequence[Member]) -> dict[str, Sequence[Place]]:
        return ranges(self.places(), members)

    def _store(self) -> None:
        members: list[dict[str, Any]] = [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.instance_id,
                "clientId": member.client_id,
                "clientHost": member.host,
                "rebalanceTimeout": MAX_POLL_MS,
                "sessionTimeout": self._session_timeout_ms,
                "subscription": self._subscriptions[member.member_id],
                "assignment": self.assignments[member.member_id],
            }
            for member in self.members.values()
        ]
        value = {
            "protocolType": self.protocol_type,
            "generation": self.generation,
            "protocol": self._protocol if members else None,
            "leader": self._leader.member_id if self._leader else None,
            "currentStateTimestamp": self._state_timestamp_ms,
            "members": members,
        }
        self._append([group_metadata(self.group_id, value)])


class CooperativeGroup(ClassicGroup):
    """A group whose members use a cooperative assignor.

    Members keep their partitions while they join. A partition that moves has no owner in one
    generation, and another rebalance follows.
    """

    _protocol = "cooperative-sticky"

    def _give_back(self, member: Member) -> None:
        """Do nothing: the member gives back only partitions that move."""

    def _complete_rebalance(self) -> None:
        before = {member: member.places for member in self.members.values()}
        super()._complete_rebalance()
        revoking = [m for m, places in before.items() if not set(places) <= set(m.places)]
        if revoking:
            self._begin_rebalance()
        for member in revoking:
            self._rejoin(member)

    def _assign(self, members: Sequence[Member]) -> dict[str, Sequence[Place]]:
        owners = {place: member.member_id for member in members for place in member.places}
        return {
            member_id: [place for place in places if owners.get(place, member_id) == member_id]
            for member_id, places in super()._assign(members).items()
        }


def _named(places: Iterable[Place]) -> list[dict[str, Any]]:
    """Partitions in the form of the consumer protocol."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in places:
        by_topic[topic].append(partition)
    return [{"topic": topic, "partitions": partitions} for topic, partitions in by_topic.items()]
