"""A group coordinator of one log partition, in memory.

>>> coordinator = GroupCoordinator()
>>> coordinator.advance(1_000)
>>> request = OffsetCommitRequest(
...     group_id="g", offsets=[OffsetToCommit(topic="t", partition=0, committed_offset=42)]
... )
>>> coordinator.commit_offsets(request)
{('t', 0): <ErrorCode.NONE: 0>}
>>> coordinator.fetch_offsets("g")[1]["t", 0].committed_offset
42
>>> [record.record_offset for batch in coordinator.log.batches() for record in batch.records]
[0]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coordinator_state.model.classic_requests import ClassicRequests
from coordinator_state.model.consumer_group_updates import ConsumerGroupUpdates
from coordinator_state.model.consumer_requests import ConsumerRequests
from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.joining import Joining
from coordinator_state.model.log import CoordinatorLog, Producer
from coordinator_state.model.mixed_requests import MixedRequests
from coordinator_state.model.offset_manager import OffsetManager, Partition
from coordinator_state.model.rebalance import Rebalances
from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FetchedOffset,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupResponse,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetToCommit,
    Reply,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coordinator_state.model.shard import CoordinatorConfig, LiveGroup, Shard
from coordinator_state.model.topics import Topics
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, Semantics

__all__ = ["GroupCoordinator", "OffsetCommitRequest", "OffsetToCommit"]


class GroupCoordinator:
    """Answers requests at the current time of the model, and appends to its log.

    Args:
        semantics: the coordinator of Kafka 4 or of Kafka 3.
        config: the broker settings.
        topics: the topics of the cluster, for the assignments of consumer groups.
        seed: the seed of random ids.
    """

    def __init__(
        self,
        semantics: Semantics = Semantics.COORDINATOR,
        *,
        config: CoordinatorConfig | None = None,
        topics: Topics | None = None,
        seed: int = 0,
    ) -> None:
        self.shard = Shard(
            semantics=semantics,
            config=config or CoordinatorConfig(),
            topics=topics or Topics(),
        )
        self.shard.choose.seed(seed)
        rebalances = Rebalances(self.shard)
        changes = ConsumerGroupUpdates(self.shard, rebalances)
        mixed = MixedRequests(self.shard, changes)
        self._joining = Joining(self.shard, rebalances, mixed)
        self._classic = ClassicRequests(self.shard, rebalances, mixed)
        self._consumer = ConsumerRequests(self.shard, changes)
        self._offsets = OffsetManager(self.shard, rebalances)

    # --- state

    @property
    def log(self) -> CoordinatorLog:
        """The log that the coordinator writes."""
        return self.shard.log

    @property
    def groups(self) -> dict[str, LiveGroup]:
        """The groups by id."""
        return dict(self.shard.groups)

    @property
    def offsets(self) -> dict[OffsetKey, CommittedOffset]:
        """All committed offsets."""
        return self._offsets.offsets

    @property
    def pending(self) -> dict[int, dict[OffsetKey, CommittedOffset]]:
        """The pending offsets, by producer id."""
        return self._offsets.pending

    def advance(self, now_ms: int) -> None:
        """Advance the time. Due sessions expire and due rebalances complete."""
        self.shard.timers.advance(now_ms)

    # --- requests

    def join_group(self, request: JoinGroupRequest) -> Reply[JoinGroupResponse]:
        """JoinGroup; answered when the next generation starts."""
        return self._joining.join_group(request)

    def sync_group(self, request: SyncGroupRequest) -> Reply[SyncGroupResponse]:
        """SyncGroup; answered when the leader's assignment is durable."""
        return self._classic.sync_group(request)

    def heartbeat(
        self,
        group_id: str,
        member_id: str,
        generation_id: int,
        group_instance_id: str | None = None,
    ) -> ErrorCode:
        """Heartbeat."""
        return self._classic.heartbeat(group_id, member_id, generation_id, group_instance_id)

    def leave_group(self, group_id: str, members: Sequence[MemberIdentity]) -> LeaveGroupResponse:
        """LeaveGroup."""
        return self._classic.leave_group(group_id, members)

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        """ConsumerGroupHeartbeat (KIP-848): a member joins, stays or leaves."""
        return self._consumer.heartbeat(request)

    def commit_offsets(
        self, request: OffsetCommitRequest, producer: Producer | None = None
    ) -> dict[Partition, ErrorCode]:
        """OffsetCommit, or TxnOffsetCommit of a producer."""
        return self._offsets.commit_offsets(request, producer)

    def end_transaction(self, producer: Producer, *, is_commit: bool) -> None:
        """WriteTxnMarkers, from the transaction coordinator."""
        self._offsets.end_transaction(producer, is_commit=is_commit)

    def fetch_offsets(
        self,
        group_id: str,
        partitions: Iterable[Partition] | None = None,
        *,
        require_stable: bool = False,
    ) -> tuple[ErrorCode, dict[Partition, FetchedOffset]]:
        """OffsetFetch; without partitions, of all offsets of the group."""
        return self._offsets.fetch_offsets(group_id, partitions, require_stable=require_stable)

    def delete_offsets(
        self, group_id: str, partitions: Sequence[Partition]
    ) -> tuple[ErrorCode, dict[Partition, ErrorCode]]:
        """OffsetDelete."""
        return self._offsets.delete_offsets(group_id, partitions)

    def delete_groups(self, group_ids: Sequence[str]) -> dict[str, ErrorCode]:
        """DeleteGroups."""
        return self._offsets.delete_groups(group_ids)

    def expire_offsets(self) -> int:
        """Expire offsets, as brokers do every ten minutes, and return their number."""
        return self._offsets.expire_offsets()
