"""What scripts ask of a coordinator: the model (`model_clients`) or a broker (`broker_clients`).

Requests and answers are those of the model; what is a broker's own (ids, times) stays as it is
there, and `told` names or leaves it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.offset_manager import Partition
from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FetchedOffset,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupResponse,
    MemberIdentity,
    OffsetCommitRequest,
    Reply,
    SyncGroupRequest,
    SyncGroupResponse,
)


class Coordinator(Protocol):
    """What a script asks; joins and syncs are begun, and waited for with `settle`."""

    def join(self, client: str, request: JoinGroupRequest) -> Reply[JoinGroupResponse]: ...

    def sync(self, client: str, request: SyncGroupRequest) -> Reply[SyncGroupResponse]: ...

    def settle(self, *replies: Reply[Any]) -> None: ...

    def heartbeat(
        self, group_id: str, member_id: str, generation_id: int, instance_id: str | None = None
    ) -> ErrorCode: ...

    def leave(self, group_id: str, members: Sequence[MemberIdentity]) -> LeaveGroupResponse: ...

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse: ...

    def commit(self, request: OffsetCommitRequest) -> dict[Partition, ErrorCode]: ...

    def begin_transaction(self, transactional_id: str) -> None: ...

    def commit_in_transaction(
        self, transactional_id: str, request: OffsetCommitRequest
    ) -> dict[Partition, ErrorCode]: ...

    def end_transaction(self, transactional_id: str, *, is_commit: bool) -> None: ...

    def fetch(
        self, group_id: str, partitions: Sequence[Partition] | None, *, require_stable: bool = False
    ) -> dict[Partition, FetchedOffset]: ...

    def delete_offsets(
        self, group_id: str, partitions: Sequence[Partition]
    ) -> tuple[ErrorCode, dict[Partition, ErrorCode]]: ...

    def delete_groups(self, group_ids: Sequence[str]) -> dict[str, ErrorCode]: ...
