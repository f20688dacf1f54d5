"""A live consumer group (KIP-848): members, epochs, and current and target assignments.

Source: ModernGroup.java, MemberState.java, consumer/ConsumerGroup.java and
consumer/ConsumerGroupMember.java of group-coordinator/src/main/java/org/apache/kafka/coordinator/
group/modern at 4.2.0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final
from uuid import UUID

from coordinator_state.model.classic_group import Protocols
from coordinator_state.model.java_hash import in_hash_order
from coordinator_state.model.log import KeyAndValue
from coordinator_state.model.records import removed_group
from coordinator_state.model.requests import UNKNOWN_GENERATION, ErrorCode
from coordinator_state.model.topics import Assigned
from coordinator_state.records.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from coordinator_state.replay.offsets import CommittedOffset

JOIN_EPOCH: Final = 0
"""The epoch of a member without an assignment, and of a request to join."""
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""The epoch of a static member that leaves temporarily."""


class MemberState(IntEnum):
    """The progress of a member towards its target assignment."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member must revoke partitions and has not confirmed it."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members must revoke."""


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """The additional state of a member that uses the classic protocol in a consumer group."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member with its subscription and its assignment."""

    member_id: str
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assigned = field(default_factory=dict)
    pending_revocation: Assigned = field(default_factory=dict)
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_topics: frozenset[str] = frozenset()
    server_assignor: str | None = None
    classic: ClassicProtocol | None = None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member has its complete target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch


_MEMBER_EPOCH_VERSION = 9
"""The first OffsetCommit version with member epochs."""


class ConsumerGroupState(Enum):
    """The state of a group in the answer to ConsumerGroupDescribe."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(slots=True, kw_only=True)
class LiveConsumerGroup:
    """A consumer group. `targets` has the target assignments by member id."""

    group_id: str
    group_epoch: int = 0
    target_epoch: int = 0
    metadata_hash: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, Assigned] = field(default_factory=dict)

    def copy(self) -> LiveConsumerGroup:
        """An independent copy. Members and assignments are immutable and shared."""
        return LiveConsumerGroup(
            group_id=self.group_id,
            group_epoch=self.group_epoch,
            target_epoch=self.target_epoch,
            metadata_hash=self.metadata_hash,
            members=dict(self.members),
            targets=dict(self.targets),
        )

    @property
    def state(self) -> ConsumerGroupState:
        """The state, derived from the epochs."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(m.is_reconciled_to(self.target_epoch) for m in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def protocol_type(self) -> str:
        """The protocol type of all consumer groups."""
        return CONSUMER_PROTOCOL_TYPE

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The static member with this instance id."""
        if instance_id is None:
            return None
        members = self.members.values()
        return next((m for m in members if m.group_instance_id == instance_id), None)

    def target_of(self, member: ConsumerMember) -> Assigned:
        """The target assignment of a member, or of the member whose instance id it took over."""
        known = self.static_member(member.group_instance_id)
        if member.group_instance_id is not None and known is None:
            return {}
        return self.targets.get(member.member_id if known is None else known.member_id, {})

    def owned(self) -> set[tuple[UUID, int]]:
        """The partitions that some member has or must still revoke."""
        return {
            (topic_id, partition)
            for member in self.members.values()
            for part in (member.assigned, member.pending_revocation)
            for topic_id, partitions in part.items()
            for partition in partitions
        }

    def members_with(self, updated: ConsumerMember) -> dict[str, ConsumerMember]:
        """The members after one joined or changed, without a former owner of its instance id."""
        replaced = self.static_member(updated.group_instance_id)
        members = {**self.members, updated.member_id: updated}
        if replaced is not None and replaced.member_id != updated.member_id:
            del members[replaced.member_id]
        return members

    def preferred_assignor(self, updated: ConsumerMember) -> str | None:
        """The assignor with the most votes. On a tie, one that only this member names wins.

        A broker removes the member's vote from its map and adds it again, at the head of a bucket.
        """
        named = (m.server_assignor for m in self.members_with(updated).values())
        votes = Counter(name for name in named if name is not None)

        def is_of_others(name: str) -> bool:
            return name != updated.server_assignor or votes[name] > 1

        ordered = sorted(in_hash_order(votes), key=is_of_others)
        return max(ordered, key=votes.__getitem__) if ordered else None

    # --- members of the classic protocol

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a member of the classic protocol shares a protocol with the others of it."""
        known = [m.classic.protocols for m in self.members.values() if m.classic is not None]
        common = Counter(name for protocols in known for name, _ in protocols)
        return protocol_type == CONSUMER_PROTOCOL_TYPE and any(
            common[name] == len(known) for name in names
        )

    def is_classic_without(self, leaving: Collection[ConsumerMember]) -> bool:
        """Whether members remain, and all of them use the classic protocol."""
        leaving_ids = {member.member_id for member in leaving}
        remaining = [m for m in self.members.values() if m.member_id not in leaving_ids]
        return bool(remaining) and all(member.classic is not None for member in remaining)

    def waits_on_unreleased_partition(self, member: ConsumerMember) -> bool:
        """Whether another member still owns a partition of the member's target assignment."""
        owned = self.owned()
        return any(
            (topic_id, partition) in owned
            for topic_id, partitions in self.targets.get(member.member_id, {}).items()
            for partition in partitions - member.assigned.get(topic_id, frozenset())
        )

    # --- interface for the offset manager, common to all group types

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> ErrorCode:
        """Check whether a member, or a client that is not a member, may commit offsets."""
        if generation_id < 0 and self.is_empty:
            return ErrorCode.NONE
        is_nobody = generation_id == UNKNOWN_GENERATION and not member_id
        if is_transactional and is_nobody and group_instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_classic = member.classic is not None
        if not (is_transactional or is_classic) and version < _MEMBER_EPOCH_VERSION:
            return ErrorCode.UNSUPPORTED_VERSION
        if generation_id == member.member_epoch:
            return ErrorCode.NONE
        if is_classic or is_transactional:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.STALE_MEMBER_EPOCH

    def validate_offset_delete(self) -> ErrorCode:
        """Offsets may always be deleted, because the subscribed topics are known."""
        return ErrorCode.NONE

    def validate_delete(self) -> ErrorCode:
        """Check whether the group may be deleted."""
        return ErrorCode.NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to a topic."""
        return any(topic in member.subscribed_topics for member in self.members.values())

    def expiry_base_ms(self, offset: CommittedOffset) -> int | None:
        """The time when an offset's retention starts: always its commit."""
        return offset.commit_timestamp_ms

    @property
    def is_never_stored(self) -> bool:
        """Always false: every consumer group has a record."""
        return False

    def tombstones(self) -> list[KeyAndValue]:
        """The records that delete the group."""
        return removed_group(self.group_id, list(self.members))
