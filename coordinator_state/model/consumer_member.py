"""A member of a live consumer group (KIP-848).

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/modern/MemberState.java
and modern/consumer/ConsumerGroupMember.java at 4.2.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from coordinator_state.model.classic_member import Protocols
from coordinator_state.model.topics import Assigned

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
