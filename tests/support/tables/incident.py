"""A group in front of the model of a group coordinator, and its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from uuid import UUID

from coordinator_state.insight.lag import GONE, PRESENT
from coordinator_state.model.classic_group import ClassicGroup
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
from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.partitioner import partition_for
from streaming.kafka.partition_offsets import LogOffsets
from streaming.lag.sample_runs import Sample
from streaming.lag.unwritten_samples import rows_of
from streaming.local.simulation.tables import simulated_tables
from streaming.tables.schemas import LOG_OFFSETS

GROUP = "orders-app"
TOPIC = "orders"
START = datetime(2026, 3, 2, 8, tzinfo=timezone.utc)
STEP_S = 5
PRODUCER = Producer(7, 0)
_OFFSETS_TOPIC = "__consumer_offsets"
_RETENTION_MS = 20 * 60_000
_SNAPSHOT_RETENTION = timedelta(days=36_500)
"""Longer ago than `START`."""


@dataclass
class Incident:
    """A topic and its only group, with a log partition of its own, in virtual time.

    Every step the producers write, the members read and commit, and the logs are sampled.
    """

    group: str = GROUP
    topic: str = TOPIC
    start: datetime = START
    log_partitions: int = 1
    partitions: int = 4
    produce_per_s: float = 20.0
    """Records per second and partition."""
    read_per_s: float = 100.0
    """The most records that a member reads per second."""
    producer: Producer | None = None
    ends_with: bool | None = True
    """Whether a transaction commits; None leaves it open."""
    reads: bool = True
    slow: dict[int, float] = field(default_factory=dict)
    """The most records read per second, by partition."""
    poison: dict[int, int] = field(default_factory=dict)
    """The offset that the group cannot pass, by partition."""
    ends: dict[int, float] = field(default_factory=dict)
    consumed: dict[int, float] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    """Client ids by member id."""
    assigned: dict[str, list[int]] = field(default_factory=dict)
    topic_id: int = 1
    is_gone: bool = False
    log_start: int = 0

    def __post_init__(self) -> None:
        config = CoordinatorConfig(
            group_initial_rebalance_delay_ms=0, offsets_retention_ms=_RETENTION_MS
        )
        self.coordinator = GroupCoordinator(config=config, seed=1)
        self.now = self.start
        self.generation = -1
        self.samples: list[Sample] = []
        self.ends = dict.fromkeys(range(self.partitions), 0.0)
        self.consumed = dict(self.ends)
        self._advance(0)

    # --- time

    def run(
        self, *, minutes: float = 0, seconds: float = 0, each: Callable[[], None] | None = None
    ) -> None:
        """Let time pass; `each` is called every step."""
        for _ in range(round((minutes * 60 + seconds) / STEP_S)):
            self._advance(STEP_S)
            for partition in self.ends:
                self.ends[partition] += self.produce_per_s * STEP_S
            for member_id in self.members:
                self.coordinator.heartbeat(self.group, member_id, self.generation)
            if self.reads:
                self.read()
            if each is not None:
                each()
            self._sample()

    def _advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.coordinator.advance(round(self.now.timestamp() * 1000))

    def _sample(self) -> None:
        logs = {(self.topic, partition): round(end) for partition, end in self.ends.items()}
        logs[_OFFSETS_TOPIC, self.log_partition] = self.coordinator.log.next_offset
        for (topic, partition), end in logs.items():
            is_own = topic == self.topic
            offsets = LogOffsets(
                topic=topic,
                partition=partition,
                state=PRESENT,
                topic_id=str(UUID(int=self.topic_id)) if is_own else None,
                log_start_offset=min(self.log_start, end) if is_own else 0,
                log_end_offset=end,
                last_stable_offset=end,
                end_markers=0,
            )
            if is_own and self.is_gone:
                offsets = LogOffsets(topic=topic, partition=partition, state=GONE)
            self.samples.append(Sample(self.now, offsets))

    # --- members

    def join(self, *client_ids: str) -> None:
        """New members join, and all members rejoin."""
        self.rebalance(client_ids)

    def leave(self, *client_ids: str) -> None:
        """Members leave, and the others rejoin."""
        self.rebalance((), client_ids)

    def rebalance(self, joining: Iterable[str], leaving: Sequence[str] = ()) -> None:
        """Members leave and join; the others rejoin."""
        for member_id in [m for m, client_id in self.members.items() if client_id in leaving]:
            self.coordinator.leave_group(self.group, [MemberIdentity(member_id=member_id)])
            del self.members[member_id], self.assigned[member_id]
        replies = [self._join("", client_id) for client_id in joining]
        replies += [self._join(member_id, c) for member_id, c in list(self.members.items())]
        for _ in range(10):
            if all(reply.is_done for reply in replies):
                break
            self._advance(1)
        self._sync()

    def _join(self, member_id: str, client_id: str) -> Reply[JoinGroupResponse]:
        subscription = encode_subscription({"topics": [self.topic], "userData": None}, 0)
        return self.coordinator.join_group(
            JoinGroupRequest(
                group_id=self.group,
                member_id=member_id,
                protocols=(("range", subscription),),
                client_id=client_id,
                client_host=f"/10.0.0.{len(client_id) + ord(client_id[-1]) % 10}",
                requires_known_member_id=False,
            )
        )

    def _sync(self) -> None:
        live = self.coordinator.groups.get(self.group)
        self.members, self.assigned = {}, {}
        if not isinstance(live, ClassicGroup) or not live.members:
            return
        self.generation = live.generation_id
        self.members = {m.member_id: m.client_id for m in live.members.values()}
        self.assigned = {member_id: [] for member_id in self.members}
        ids = sorted(self.members)
        for partition in self.ends:
            self.assigned[ids[partition % len(ids)]].append(partition)
        values = {member_id: _assignment(self.topic, p) for member_id, p in self.assigned.items()}
        for member_id in sorted(ids, key=lambda m: m != live.leader_id):
            self.coordinator.sync_group(
                SyncGroupRequest(
                    group_id=self.group,
                    member_id=member_id,
                    generation_id=self.generation,
                    assignments=values,
                )
            )

    def unassign(self, partition: int) -> None:
        """The leader leaves a partition out of the assignment of the next generation."""
        end = self.ends.pop(partition)
        self.rebalance(())
        self.ends[partition] = end

    # --- offsets

    def read(self) -> None:
        """Each member reads its partitions and commits."""
        if not self.members:
            return
        for member_id, partitions in self.assigned.items():
            share = self.read_per_s * STEP_S / max(1, len(partitions))
            for partition in partitions:
                self._read(partition, share)
            self.commit(partitions, member_id)

    def _read(self, partition: int, most: float) -> None:
        most = min(most, self.slow.get(partition, most / STEP_S) * STEP_S)
        until = min(self.consumed[partition] + most, self.ends[partition])
        self.consumed[partition] = min(until, self.poison.get(partition, until))

    def commit(self, partitions: Iterable[int], member_id: str = "") -> None:
        """Commit the consumed offsets of partitions; without a member id as an admin tool does."""
        offsets = [
            OffsetToCommit(
                topic=self.topic,
                partition=partition,
                committed_offset=round(self.consumed[partition]),
                leader_epoch=0 if member_id else -1,
            )
            for partition in partitions
        ]
        if not offsets:
            return
        request = OffsetCommitRequest(
            group_id=self.group,
            member_id=member_id,
            generation_id=self.generation if member_id else -1,
            offsets=offsets,
        )
        error_codes = self.coordinator.commit_offsets(request, self.producer)
        assert set(error_codes.values()) == {ErrorCode.NONE}, error_codes
        if self.producer is not None and self.ends_with is not None:
            self.coordinator.end_transaction(self.producer, is_commit=self.ends_with)

    def assign_and_commit(self) -> None:
        """A consumer with `assign()` and no member reads all partitions and commits."""
        for partition in self.ends:
            self._read(partition, self.read_per_s * STEP_S)
        self.commit(self.ends)

    # --- tables

    @property
    def log_partition(self) -> int:
        """The partition of `__consumer_offsets` that has the group."""
        return partition_for(self.group, self.log_partitions)

    def tables(self, folder: Path) -> str:
        """Write the tables of the whole log."""
        return write_tables(folder, [self])


def write_tables(folder: Path, incidents: Sequence[Incident]) -> str:
    """Write the tables of incidents in one cluster, each with a log partition of its own."""
    tables = str(folder)
    with simulated_tables(
        tables,
        Semantics.COORDINATOR,
        log_partitions=incidents[0].log_partitions,
        history="all",
        snapshot_retention=_SNAPSHOT_RETENTION,
        offsets_retention_ms=_RETENTION_MS,
    ) as target:
        target.take([_written(incident) for incident in incidents])
        samples = [sample for incident in incidents for sample in incident.samples]
        target.writer.append(LOG_OFFSETS, rows_of(samples))
    return tables


def _written(incident: Incident) -> Written:
    log = incident.coordinator.log
    return Written(incident.log_partition, b"".join(log.raw), 0, log.next_offset, log.next_offset)


def _assignment(topic: str, partitions: Sequence[int]) -> bytes:
    topics = [{"topic": topic, "partitions": list(partitions)}]
    return encode_assignment({"assignedPartitions": topics if partitions else [], "userData": None})
