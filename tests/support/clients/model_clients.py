"""The model of the coordinator, asked as a broker is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.log import Producer
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


class ModelClients:
    """The model; time goes by where somebody waits."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._model = coordinator
        self._model.advance(1)
        self._producers: dict[str, Producer] = {}

    def join(self, client: str, request: JoinGroupRequest) -> Reply[JoinGroupResponse]:
        assert client
        return self._model.join_group(request)

    def sync(self, client: str, request: SyncGroupRequest) -> Reply[SyncGroupResponse]:
        assert client
        return self._model.sync_group(request)

    def settle(self, *replies: Reply[Any]) -> None:
        while not all(reply.is_done for reply in replies):
            due_ms = self._model.shard.timers.next_due_ms
            assert due_ms is not None, "nothing will ever answer"
            self._model.advance(due_ms)

    def heartbeat(
        self, group_id: str, member_id: str, generation_id: int, instance_id: str | None = None
    ) -> ErrorCode:
        return self._model.heartbeat(group_id, member_id, generation_id, instance_id)

    def leave(self, group_id: str, members: Sequence[MemberIdentity]) -> LeaveGroupResponse:
        return self._model.leave_group(group_id, members)

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        return self._model.consumer_group_heartbeat(request)

    def commit(self, request: OffsetCommitRequest) -> dict[Partition, ErrorCode]:
        return self._model.commit_offsets(request)

    def begin_transaction(self, transactional_id: str) -> None:
        self._producers.setdefault(transactional_id, Producer(len(self._producers), 0))

    def commit_in_transaction(
        self, transactional_id: str, request: OffsetCommitRequest
    ) -> dict[Partition, ErrorCode]:
        return self._model.commit_offsets(request, self._producers[transactional_id])

    def end_transaction(self, transactional_id: str, *, is_commit: bool) -> None:
        self._model.end_transaction(self._producers[transactional_id], is_commit=is_commit)

    def fetch(
        self, group_id: str, partitions: Sequence[Partition] | None, *, require_stable: bool = False
    ) -> dict[Partition, FetchedOffset]:
        error_code, found = self._model.fetch_offsets(
            group_id, partitions, require_stable=require_stable
        )
        assert error_code is ErrorCode.NONE
        return found

    def delete_offsets(
        self, group_id: str, partitions: Sequence[Partition]
    ) -> tuple[ErrorCode, dict[Partition, ErrorCode]]:
        return self._model.delete_offsets(group_id, partitions)

    def delete_groups(self, group_ids: Sequence[str]) -> dict[str, ErrorCode]:
        return self._model.delete_groups(group_ids)
