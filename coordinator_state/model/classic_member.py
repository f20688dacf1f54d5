"""A member of a live classic group, and what it waits for.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/classic/
ClassicGroupMember.java at 4.2.0; MemberMetadata.scala at 3.9.1.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator_state.model.requests import JoinGroupResponse, Reply, SyncGroupResponse

Protocols = tuple[tuple[str, bytes], ...]
"""Names and a member's metadata under each, in its order of preference."""


@dataclass(slots=True, kw_only=True, eq=False)
class ClassicMember:
    """A member; `join` and `sync` are its requests that wait for an answer."""

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
        """Whether a session that is over is none of the member's fault: it waits for an answer."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol: str) -> bytes:
        """The member's metadata under a protocol."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: set[str]) -> str:
        """The protocol that the member likes best of these."""
        return next(name for name, _ in self.protocols if name in candidates)

    def answer_join(self, response: JoinGroupResponse) -> None:
        """Answer the join that waits, if one does."""
        if self.join is not None:
            self.join.complete(response)
            self.join = None

    def answer_sync(self, response: SyncGroupResponse) -> bool:
        """Answer the sync that waits; tell whether one did."""
        if self.sync is None:
            return False
        self.sync.complete(response)
        self.sync = None
        return True
