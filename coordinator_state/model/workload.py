"""Simulates groups and the records that their coordinators write to all log partitions.

Members of a group join, leave, rejoin and commit offsets. Some groups commit in transactions, of
which some abort. Some are simple groups without members. A group may stop for longer than the
offset retention, so that its offsets expire, and a few groups are deleted. The same settings,
including the seed, give the same logs.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.cleaner import clean
from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.log import Producer, Written
from coordinator_state.model.requests import (
    JoinGroupRequest,
    JoinGroupResponse,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetToCommit,
    Reply,
    SyncGroupRequest,
)
from coordinator_state.model.shard import CoordinatorConfig
from coordinator_state.model.simulated_consumers import SimulatedConsumers
from coordinator_state.model.simulated_group import MINUTE_MS, SimulatedGroup, WorkloadSettings
from coordinator_state.model.topics import Topic, Topics
from coordinator_state.records.consumer_protocol import encode_assignment
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.partitioner import partition_for

__all__ = ["MINUTE_MS", "Workload", "WorkloadSettings"]

_SESSION_MS: Final = 30 * MINUTE_MS
_HEARTBEAT_MS: Final = 10 * MINUTE_MS
_REBALANCE_MS: Final = 5 * MINUTE_MS
_INITIAL_DELAY_MS: Final = 3_000
_EXPIRY_CHECK_MS: Final = 10 * MINUTE_MS
_POLL_MS: Final = 1_000
_MAX_CONSUMED: Final = 500
_TOPICS: Final = 200
_OTHER_PROTOCOL_SHARE: Final = 0.1


class Workload:
    """A simulation in virtual time. `coordinators` has a coordinator for each log partition."""

    def __init__(self, settings: WorkloadSettings) -> None:
        self.settings = settings
        self.now_ms = settings.from_ms
        self._choose = random.Random(settings.seed)
        config = CoordinatorConfig(
            offsets_retention_ms=settings.offsets_retention_ms,
            group_initial_rebalance_delay_ms=_INITIAL_DELAY_MS,
            consumer_session_timeout_ms=_SESSION_MS,
        )
        self._groups = [self._new_group(number) for number in range(settings.groups)]
        self._consumers = SimulatedConsumers(self._coordinator, self._choose)
        self.topics = Topics(
            {
                group.topic: Topic(uuid5(NAMESPACE_URL, group.topic), group.partitions)
                for group in self._groups
            }
        )
        self.coordinators = {
            log_partition: GroupCoordinator(
                settings.semantics,
                config=config,
                topics=self.topics,
                seed=settings.seed * 1_000 + log_partition,
            )
            for log_partition in range(settings.log_partitions)
        }
        self._taken_offsets: dict[int, int] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._begin()

    @property
    def records(self) -> int:
        """The number of written records, including records that the cleaner removed since."""
        return sum(c.log.next_offset for c in self.coordinators.values())

    def run(self, ms: int) -> None:
        """Advance the time by `ms` milliseconds."""
        until_ms = self.now_ms + ms
        while self._events and self._events[0][0] <= until_ms:
            due_ms, _, action = heapq.heappop(self._events)
            self.now_ms = max(self.now_ms, int(due_ms))
            action()
        self.now_ms = until_ms
        for coordinator in self.coordinators.values():
            coordinator.advance(self.now_ms)

    def run_until(self, records: int) -> None:
        """Advance the time until at least this many records are written.

        The last request may write more records.
        """
        while self.records < records and self._events:
            due_ms, _, action = heapq.heappop(self._events)
            self.now_ms = max(self.now_ms, int(due_ms))
            action()
        self.run(0)

    def logs(self) -> Iterator[tuple[int, bytes]]:
        """The log of each log partition."""
        for log_partition, coordinator in self.coordinators.items():
            yield log_partition, b"".join(coordinator.log.raw)

    def take(self) -> Iterator[Written]:
        """The records written since the last call, for each log partition that has any.

        Records that the cleaner removed before this call are not included.
        """
        for log_partition, coordinator in self.coordinators.items():
            log = coordinator.log
            start = self._taken_offsets.get(log_partition, 0)
            end = log.next_offset
            if start < end:
                self._taken_offsets[log_partition] = end
                yield Written(log_partition, log.since(start), start, end, high_watermark=end)

    def log_end_offsets(self) -> dict[tuple[str, int], int]:
        """The log ends by consumed topic and partition. Stopped groups fall behind them."""
        running_s = (self.now_ms - self.settings.from_ms) / 1000
        produced = int(running_s * 1000 / self.settings.commit_interval_ms * _MAX_CONSUMED / 2)
        log_ends: dict[tuple[str, int], int] = {}
        for group in self._groups:
            for partition, consumed in enumerate(group.consumed):
                key = (group.topic, partition)
                log_ends[key] = max(produced, consumed, log_ends.get(key, 0))
        return log_ends

    # --- scheduling

    def _begin(self) -> None:
        settings = self.settings
        interval_ms = settings.commit_interval_ms
        for group in self._groups:
            first_ms = self._choose.random() * interval_ms
            if not group.is_simple:
                self._at(first_ms, partial(self._join_all, group))
            self._each(interval_ms, partial(self._commit, group), first_ms)
            self._each(_HEARTBEAT_MS, partial(self._heartbeat, group), first_ms)
        self._each(_EXPIRY_CHECK_MS, self._expire)
        hour_ms = 60 * MINUTE_MS
        for per_hour, action in (
            (settings.rebalances_per_hour * settings.groups, self._change_members),
            (settings.stops_per_hour * settings.groups, self._stop),
        ):
            if per_hour:
                self._each(hour_ms / per_hour, action)
        if settings.clean_every_ms is not None:
            self._each(settings.clean_every_ms, self._clean)

    def _at(self, delay_ms: float, action: Callable[[], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._scheduled, action))

    def _each(
        self, interval_ms: float, action: Callable[[], None], first_ms: float | None = None
    ) -> None:
        def run_and_repeat() -> None:
            action()
            self._at(interval_ms, run_and_repeat)

        self._at(interval_ms if first_ms is None else first_ms, run_and_repeat)

    def _new_group(self, number: int) -> SimulatedGroup:
        settings, choose = self.settings, self._choose
        is_simple = choose.random() < settings.simple_share
        is_transactional = not is_simple and choose.random() < settings.transactional_share
        is_consumer = not is_simple and choose.random() < settings.consumer_share
        return SimulatedGroup(
            group_id=f"group-{number:06d}",
            topic=f"topic-{number % _TOPICS:03d}",
            partitions=settings.partitions_per_group,
            is_simple=is_simple,
            is_static=choose.random() < settings.static_share,
            is_consumer=is_consumer and settings.semantics is Semantics.COORDINATOR,
            producer=Producer(number, 0) if is_transactional else None,
            members={},
            consumed=[0] * settings.partitions_per_group,
        )

    def _coordinator(self, group: SimulatedGroup) -> GroupCoordinator:
        number = partition_for(group.group_id, self.settings.log_partitions)
        coordinator = self.coordinators[number]
        coordinator.advance(self.now_ms)
        return coordinator

    # --- members

    def _join_all(self, group: SimulatedGroup) -> None:
        """Let all members of a group without members join."""
        for _ in range(max(1, self.settings.members_per_group)):
            self._join_new(group)
        self._reconcile(group)

    def _reconcile(self, group: SimulatedGroup) -> None:
        """Send the heartbeats of a consumer group once a second until it is reconciled."""
        if group.is_consumer and not self._consumers.reconcile(group):
            self._at(_POLL_MS, partial(self._reconcile, group))

    def _join_new(self, group: SimulatedGroup) -> None:
        instance_id = group.new_instance_id()
        if group.is_consumer:
            self._consumers.join(group, instance_id)
            return
        joins = [self._join(group, "", instance_id)]
        joins += [self._join(group, m, i) for m, i in list(group.members.items())]
        self._sync_when_joined(group, joins)

    def _join(
        self, group: SimulatedGroup, member_id: str, instance_id: str | None
    ) -> Reply[JoinGroupResponse]:
        return self._coordinator(group).join_group(
            JoinGroupRequest(
                group_id=group.group_id,
                member_id=member_id,
                group_instance_id=instance_id,
                protocols=group.protocols,
                session_timeout_ms=_SESSION_MS,
                rebalance_timeout_ms=_REBALANCE_MS,
                client_id=group.group_id,
                requires_known_member_id=False,
            )
        )

    def _sync_when_joined(
        self, group: SimulatedGroup, joins: list[Reply[JoinGroupResponse]]
    ) -> None:
        self._coordinator(group)
        if group.is_consumer:
            return
        if not all(reply.is_done for reply in joins):
            self._at(_POLL_MS, partial(self._sync_when_joined, group, joins))
            return
        live = self._coordinator(group).shard.groups.get(group.group_id)
        if not isinstance(live, ClassicGroup):
            group.members.clear()
            return
        group.generation = live.generation_id
        group.members = {m.member_id: m.group_instance_id for m in live.members.values()}
        partitions: dict[str, list[int]] = {member_id: [] for member_id in group.members}
        for partition in range(group.partitions if group.members else 0):
            partitions[list(group.members)[partition % len(group.members)]].append(partition)
        assignments = {m: _assignment(group.topic, p) for m, p in partitions.items()}
        # The leader goes first: the coordinator then answers the others at once.
        for member_id in sorted(group.members, key=lambda m: m != live.leader_id):
            self._coordinator(group).sync_group(
                SyncGroupRequest(
                    group_id=group.group_id,
                    member_id=member_id,
                    generation_id=group.generation,
                    group_instance_id=group.members[member_id],
                    assignments=assignments,
                )
            )

    def _change_members(self) -> None:
        """Let a member of a random group join, leave, or rejoin under its instance id."""
        group = self._choose.choice(self._groups)
        if group.is_simple or not group.members:
            return
        member_id = self._choose.choice(list(group.members))
        instance_id = group.members[member_id]
        if group.is_consumer:
            self._consumers.change(group, member_id)
            self._reconcile(group)
        elif instance_id is not None:
            self._sync_when_joined(group, [self._join(group, "", instance_id)])
        elif len(group.members) > 1 and self._choose.random() < 0.5:
            self._leave(group, [member_id])
            joins = [self._join(group, m, i) for m, i in list(group.members.items())]
            self._sync_when_joined(group, joins)
        else:
            self._join_new(group)

    def _leave(self, group: SimulatedGroup, member_ids: list[str]) -> None:
        if group.is_consumer:
            self._consumers.leave(group, member_ids)
            return
        identities = [
            MemberIdentity(member_id=m, group_instance_id=group.members[m]) for m in member_ids
        ]
        self._coordinator(group).leave_group(group.group_id, identities)
        for member_id in member_ids:
            del group.members[member_id]

    def _heartbeat(self, group: SimulatedGroup) -> None:
        if group.is_consumer:
            self._consumers.reconcile(group)
            return
        for member_id in group.members:
            self._coordinator(group).heartbeat(group.group_id, member_id, group.generation)

    def _stop(self) -> None:
        """Let all members of a random group leave and return later. Some groups are deleted."""
        group = self._choose.choice(self._groups)
        if group.is_simple or not group.members:
            return
        self._leave(group, list(group.members))
        draw = self._choose.random()
        if draw < 0.1:
            self._coordinator(group).delete_groups([group.group_id])
        delay_ms = self._choose.uniform(1, 60) * MINUTE_MS
        if draw >= 0.8:
            # Long enough that the group's offsets expire.
            delay_ms += self.settings.offsets_retention_ms + _EXPIRY_CHECK_MS
        self._at(delay_ms, partial(self._rejoin_all, group))

    def _rejoin_all(self, group: SimulatedGroup) -> None:
        """Let all members of a group return; a few groups then use the other protocol."""
        if group.members:
            return
        if self.settings.consumer_share and self.settings.semantics is Semantics.COORDINATOR:
            group.is_consumer ^= self._choose.random() < _OTHER_PROTOCOL_SHARE
        self._join_all(group)

    # --- offsets

    def _commit(self, group: SimulatedGroup) -> None:
        if not (group.is_simple or group.members):
            return
        for partition in range(group.partitions):
            group.consumed[partition] += self._choose.randrange(_MAX_CONSUMED)
        member_id = next(iter(group.members), "")
        request = OffsetCommitRequest(
            group_id=group.group_id,
            member_id=member_id,
            group_instance_id=group.members.get(member_id),
            generation_id=group.epoch_of(member_id),
            offsets=[
                OffsetToCommit(
                    topic=group.topic, partition=partition, committed_offset=offset, leader_epoch=0
                )
                for partition, offset in enumerate(group.consumed)
            ],
        )
        error_codes = self._coordinator(group).commit_offsets(request, group.producer)
        if group.producer is not None and ErrorCode.NONE in error_codes.values():
            is_commit = self._choose.random() >= self.settings.aborted_share
            # End it 1 ms later: records of other groups come in between, but none of this group.
            self._at(1, partial(self._end_transaction, group, group.producer, is_commit))

    def _end_transaction(self, group: SimulatedGroup, producer: Producer, is_commit: bool) -> None:
        self._coordinator(group).end_transaction(producer, is_commit=is_commit)

    def _expire(self) -> None:
        for coordinator in self.coordinators.values():
            coordinator.advance(self.now_ms)
            coordinator.expire_offsets()

    def _clean(self) -> None:
        for coordinator in self.coordinators.values():
            batches = coordinator.log.batches()
            if batches:
                coordinator.log.replace(
                    clean(
                        batches,
                        upper_bound=coordinator.log.next_offset,
                        now_ms=self.now_ms,
                        delete_retention_ms=self.settings.delete_retention_ms,
                    )
                )


def _assignment(topic: str, partitions: list[int]) -> bytes:
    if not partitions:
        return b""
    topics = [{"topic": topic, "partitions": partitions}]
    return encode_assignment({"assignedPartitions": topics, "userData": None}, 0)
