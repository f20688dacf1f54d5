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
"""Of a member that has no assignment yet; also of a request to join."""
LEAVE_EPOCH: Final = -1
AWAY_EPOCH: Final = -2
"""Of a static member that will be back."""


class MemberState(IntEnum):
    """How far a member is on its way to its target assignment."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It has to give partitions up, and has not said that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have to give up."""


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """What a member has that speaks the classic protocol in a consumer group."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member: what it subscribes to, and what it has."""

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
        """Whether there is nothing left to do for a target assignment."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch
