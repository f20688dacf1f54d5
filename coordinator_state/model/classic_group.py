"""A live classic group, as a coordinator keeps it in memory between two records.

Its states and the transitions between them:

    Empty ──────────────▶ PreparingRebalance ◀──────────── Stable
      ▲                        │     ▲                       ▲
      └── no members left ─────┤     └── a change ──┐        │ the leader's assignment is stored
                               └── all have joined ─▶ CompletingRebalance

Every state becomes Dead when the group is deleted. A log only contains Empty and Stable groups,
because rebalances exist only in the coordinator's memory.

Source: ClassicGroup.java, ClassicGroupState.java and ClassicGroupMember.java of group-coordinator/
src/main/java/org/apache/kafka/coordinator/group/classic at 4.2.0; GroupMetadata.scala (with
`GroupState`) and MemberMetadata.scala at 3.9.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from coordinator_state.errors import DecodeError
from coordinator_state.model.java_hash import in_hash_order
from coordinator_state.model.log import KeyAndValue
from coordinator_state.model.records import group_metadata
from coordinator_state.model.requests import ErrorCode, JoinGroupResponse, Reply, SyncGroupResponse
from coordinator_state.records.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    decode_subscribed_topics,
)
from coordinator_state.records.record_types import NO_TIMESTAMP
from coordinator_state.replay.offsets import CommittedOffset


class ClassicState(str, Enum):
    """The states, with the names that brokers report."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = ClassicState

VALID_PREVIOUS_STATES: Final[Mapping[ClassicState, frozenset[ClassicState]]] = MappingProxyType(
    {
        _EMPTY: frozenset({_PREPARING}),
        _PREPARING: frozenset({_STABLE, _COMPLETING, _EMPTY}),
        _COMPLETING: frozenset({_PREPARING}),
        _STABLE: frozenset({_COMPLETING}),
        _DEAD: frozenset({_STABLE, _PREPARING, _COMPLETING, _EMPTY, _DEAD}),
    }
)
"""The states from which a group may enter each state."""


Protocols = tuple[tuple[str, bytes], ...]
"""Protocol names and the member's metadata for each, in its order of preference."""


@dataclass(slots=True, kw_only=True, eq=False)
class ClassicMember:
    """A member. `join` and `sync` are its unanswered requests."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    join: Reply[JoinGroupResponse] | None = None
    sync: Reply[SyncGroupResponse] | None = None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether an expired session is not the member's fault: it waits for an answer."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol: str) -> bytes:
        """The member's metadata for a protocol."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: set[str]) -> str:
        """The first of the member's protocols that is a candidate."""
        return next(name for name, _ in self.protocols if name in candidates)

    def answer_join(self, response: JoinGroupResponse) -> None:
        """Answer the pending join, if there is one."""
        if self.join is not None:
            self.join.complete(response)
            self.join = None

    def answer_sync(self, response: SyncGroupResponse) -> bool:
        """Answer the pending sync. Returns whether there was one."""
        if self.sync is None:
            return False
        self.sync.complete(response)
        self.sync = None
        return True


class InvalidTransition(Exception):
    """The group's state does not allow a transition to the other state."""


@dataclass(frozen=True, slots=True)
class DurableGroup:
    """A group's last GroupMetadata record: record offset and the fields of the value."""

    record_offset: int
    value: Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class ClassicGroup:
    """A classic group with its members in the order in which they joined.

    The first member is the leader, and the next one in this order replaces it when it leaves. A
    broker's maps have another order, so its next leader can be another member.
    """

    group_id: str
    state: ClassicState = ClassicState.EMPTY
    previous_state: ClassicState = ClassicState.EMPTY
    state_timestamp_ms: int | None = None
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """Member ids by instance id."""
    pending_members: set[str] = field(default_factory=set)
    """Member ids that the coordinator assigned but that have not joined yet."""
    pending_sync_members: set[str] = field(default_factory=set)
    new_member_added: bool = False
    """Whether a member joined during the initial delay of the first rebalance."""
    subscribed_topics: frozenset[str] | None = None
    """The topics that the members subscribe to; None if unknown."""
    durable: DurableGroup | None = None
    """The group as a load of the log would find it; None without a record."""
    has_commits: bool = False
    """Whether the log has commits of the group. With commits only, it is a simple group."""

    def is_in(self, *states: ClassicState) -> bool:
        """Whether the group is in one of these states."""
        return self.state in states

    def transition_to(self, state: ClassicState, now_ms: int) -> None:
        """Change the state.

        Raises:
            InvalidTransition: the current state does not allow it.
        """
        if self.state not in VALID_PREVIOUS_STATES[state]:
            raise InvalidTransition(
                f"group {self.group_id} cannot go from {self.state.value} to {state.value}"
            )
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        """Whether the state allows a new rebalance."""
        return self.state in VALID_PREVIOUS_STATES[ClassicState.PREPARING_REBALANCE]

    @property
    def awaiting_join(self) -> int:
        """The number of members with an unanswered join."""
        return sum(member.join is not None for member in self.members.values())

    @property
    def has_all_members_joined(self) -> bool:
        """Whether all members, and all member ids that were assigned, have joined."""
        return len(self.members) == self.awaiting_join and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the protocol type is `consumer`."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_leader(self, member_id: str) -> bool:
        """Whether the member leads the group."""
        return self.leader_id is not None and self.leader_id == member_id

    # --- members

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member."""
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member, or a member id that has not joined yet."""
        member = self.members.pop(member_id, None)
        if member is not None and member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.is_leader(member_id):
            self.leader_id = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_sync_members.discard(member_id)

    def replace_static_member(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member a new member id, and fence clients that use the old one."""
        member = self.members[old_id]
        fenced = ErrorCode.FENCED_INSTANCE_ID
        member.answer_join(JoinGroupResponse(error_code=fenced, member_id=old_id))
        member.answer_sync(SyncGroupResponse(error_code=fenced))
        member.member_id = new_id
        # The member keeps its place in the order, so the leader stays first.
        self.members = {m.member_id: m for m in self.members.values()}
        if self.is_leader(old_id):
            self.leader_id = new_id
        self.static_members[instance_id] = new_id
        return member

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Check that a request is from a member, and from the owner of the instance id."""
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader has joined. Returns False if no member has joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join is None:
            joined = (m.member_id for m in self.members.values() if m.join is not None)
            leader_id = next(joined, None)
            if leader_id is None:
                return False
            self.leader_id = leader_id
        return True

    def current_members(self) -> tuple[tuple[str, str | None, bytes], ...]:
        """The members as the leader's join response lists them."""
        return tuple(
            (m.member_id, m.group_instance_id, m.metadata(self.protocol_name or ""))
            for m in self.members.values()
        )

    # --- protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can join."""
        if self.is_in(ClassicState.EMPTY):
            return bool(protocol_type and protocols)
        if self.protocol_type != protocol_type or not protocols:
            return False
        # The only member may have left while the group waited; then any protocol fits.
        common = self._common_protocols()
        return not self.members or any(name in common for name, _ in protocols)

    def select_protocol(self) -> str:
        """The protocol with the most votes among those that all members support.

        On a tie, the first one in the order of a Java HashMap wins.
        """
        candidates = self._common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        most = max(votes.values())
        return in_hash_order(name for name, count in votes.items() if count == most)[0]

    def _common_protocols(self) -> set[str]:
        known = Counter(name for m in self.members.values() for name, _ in m.protocols)
        return {name for name, count in known.items() if count == len(self.members)}

    def init_next_generation(self, now_ms: int) -> None:
        """Start the next generation with the current members; without members it is Empty."""
        self.generation_id += 1
        self.update_protocol()
        state = ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY
        self.transition_to(state, now_ms)
        self.pending_sync_members.clear()

    def update_protocol(self) -> None:
        """Select the protocol of the current members, and update the subscribed topics."""
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._topics_of_members()

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members may subscribe to a topic.

        If the topics are unknown, true for the consumer protocol and false for other protocols.
        """
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def _topics_of_members(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol or (self.members and self.protocol_name is None):
            return None
        topics: set[str] = set()
        for member in self.members.values():
            try:
                topics.update(decode_subscribed_topics(member.metadata(self.protocol_name or "")))
            except DecodeError:
                return None
        return frozenset(topics)

    # --- interface for the offset manager, common to all group types

    @property
    def is_empty(self) -> bool:
        """Whether the state is Empty: no members and no rebalance in progress."""
        return self.is_in(ClassicState.EMPTY)

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        *,
        is_transactional: bool,
        version: int,  # noqa: ARG002 - consumer groups need it
    ) -> ErrorCode:
        """Check whether a member, or a client that is not a member, may commit offsets."""
        if self.is_in(ClassicState.DEAD):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and self.is_empty:
            return ErrorCode.NONE
        if generation_id >= 0 or member_id or group_instance_id is not None:
            error_code = self.validate_member(member_id, group_instance_id)
            if error_code is not ErrorCode.NONE:
                return error_code
            if generation_id != self.generation_id:
                return ErrorCode.ILLEGAL_GENERATION
        elif not is_transactional and not self.is_empty:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not is_transactional and self.is_in(ClassicState.COMPLETING_REBALANCE):
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def validate_offset_delete(self) -> ErrorCode:
        """Check whether offsets may be deleted.

        A group with members must use the consumer protocol, which tells the subscribed topics.
        """
        if self.is_in(ClassicState.DEAD):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not self.is_empty and not self.uses_consumer_protocol:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def validate_delete(self) -> ErrorCode:
        """Check whether the group may be deleted."""
        if self.is_in(ClassicState.DEAD):
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    @property
    def is_never_stored(self) -> bool:
        """Whether the group never had a generation, so Kafka 3 has no record of it."""
        return self.generation_id == 0

    def tombstones(self) -> list[KeyAndValue]:
        """The records that delete the group."""
        return [group_metadata(self.group_id, None)]

    def expiry_base_ms(self, offset: CommittedOffset) -> int | None:
        """The time when an offset's retention starts; None while it does not run (KIP-211)."""
        if self.protocol_type is None:
            return offset.commit_timestamp_ms
        if self.is_empty:
            since = self.state_timestamp_ms
            return offset.commit_timestamp_ms if since is None else since
        is_known = self.uses_consumer_protocol and self.subscribed_topics is not None
        if is_known and self.is_in(ClassicState.STABLE):
            return offset.commit_timestamp_ms
        return None

    # --- the record

    def metadata_value(self, assignments: Mapping[str, bytes]) -> dict[str, Any]:
        """The fields of a GroupMetadata value with these assignments."""
        timestamp = self.state_timestamp_ms
        return {
            "protocolType": self.protocol_type or "",
            "generation": self.generation_id,
            "protocol": self.protocol_name,
            "leader": self.leader_id,
            "currentStateTimestamp": NO_TIMESTAMP if timestamp is None else timestamp,
            "members": [
                {
                    "memberId": member.member_id,
                    "groupInstanceId": member.group_instance_id,
                    "clientId": member.client_id,
                    "clientHost": member.client_host,
                    "rebalanceTimeout": member.rebalance_timeout_ms,
                    "sessionTimeout": member.session_timeout_ms,
                    "subscription": member.metadata(self.protocol_name or ""),
                    "assignment": assignments[member.member_id],
                }
                for member in self.members.values()
            ],
        }

    def stored(self, record_offset: int, assignments: Mapping[str, bytes]) -> None:
        """Set `durable` after the group was appended at this record offset."""
        self.durable = DurableGroup(record_offset, self.metadata_value(assignments))
