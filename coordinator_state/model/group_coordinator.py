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

from coordinator_state.model.classic_requests import ClassicRequests
from coordinator_state.model.consumer_group_updates import ConsumerGroupUpdates
from coordinator_state.model.consumer_requests import ConsumerRequests
from coordinator_state.model.log import CoordinatorLog
from coordinator_state.model.mixed_requests import MixedRequests
from coordinator_state.model.offset_manager import OffsetManager
from coordinator_state.model.rebalance import Rebalances
from coordinator_state.model.requests import (
    OffsetCommitRequest,
    OffsetToCommit,
)
from coordinator_state.model.shard import CoordinatorConfig, LiveGroup, Shard
from coordinator_state.model.topics import Topics
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, Semantics

__all__ = ["GroupCoordinator", "OffsetCommitRequest", "OffsetToCommit"]


class GroupCoordinator:
    """Answers requests at the current time of the model, and appends to its log.

    Each kind of request is a method: `join_group` (answered when the next generation starts),
    `sync_group` (answered when the leader's assignment is durable), `heartbeat`, `leave_group`,
    `consumer_group_heartbeat` (KIP-848), `commit_offsets`, `end_transaction`, `fetch_offsets`,
    `delete_offsets`, `delete_groups`, and `expire_offsets`, which brokers do every ten minutes.

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
        classic = ClassicRequests(self.shard, rebalances, mixed)
        self._offsets = OffsetManager(self.shard, rebalances)
        self.join_group = classic.join_group
        self.sync_group = classic.sync_group
        self.heartbeat = classic.heartbeat
        self.leave_group = classic.leave_group
        self.consumer_group_heartbeat = ConsumerRequests(self.shard, changes).heartbeat
        self.commit_offsets = self._offsets.commit_offsets
        self.end_transaction = self._offsets.end_transaction
        self.fetch_offsets = self._offsets.fetch_offsets
        self.delete_offsets = self._offsets.delete_offsets
        self.delete_groups = self._offsets.delete_groups
        self.expire_offsets = self._offsets.expire_offsets

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
