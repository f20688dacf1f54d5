"""A member of a live classic group, with its unanswered requests.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/classic/
ClassicGroupMember.java at 4.2.0; MemberMetadata.scala at 3.9.1.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator_state.model.requests import JoinGroupResponse, Reply, SyncGroupResponse

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
