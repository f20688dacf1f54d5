"""A group of a simulated workload as its clients see it, and the settings of the workload."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from coordinator_state.model.log import Producer
from coordinator_state.model.topics import Assigned
from coordinator_state.records.consumer_protocol import encode_subscription
from coordinator_state.replay.offsets import Semantics

MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSettings:
    """The size of the workload and the shares of each kind of group.

    A share is a fraction of the groups; `aborted_share` is a fraction of the transactions.
    """

    seed: int = 0
    groups: int = 100
    members_per_group: int = 3
    partitions_per_group: int = 10
    commit_interval_ms: int = 5_000
    """The interval between a group's commits, each for all partitions of the group.

    5 s is Kafka's default for `auto.commit.interval.ms`.
    """
    rebalances_per_hour: float = 6.0
    """The average per group."""
    simple_share: float = 0.1
    transactional_share: float = 0.2
    aborted_share: float = 0.1
    static_share: float = 0.2
    consumer_share: float = 0.2
    """The share of consumer groups (KIP-848) among groups with members; none with Kafka 3."""
    stops_per_hour: float = 0.5
    """How often all members of a group leave, as an average per group.

    Some of these groups are deleted, the offsets of some expire, and all members return later.
    """
    offsets_retention_ms: int = 7 * 24 * 60 * MINUTE_MS
    clean_every_ms: int | None = None
    """The interval between runs of the log cleaner; None if it never runs."""
    delete_retention_ms: int = 24 * 60 * MINUTE_MS
    log_partitions: int = 50
    semantics: Semantics = Semantics.COORDINATOR
    from_ms: int = 1_700_000_000_000


@dataclass(slots=True)
class SimulatedGroup:
    """The view that a group's clients have of the group."""

    group_id: str
    topic: str
    partitions: int
    is_simple: bool
    is_static: bool
    is_consumer: bool
    producer: Producer | None
    members: dict[str, str | None]
    """Instance ids by member id."""
    consumed: list[int]
    generation: int = -1
    epochs: dict[str, int] = field(default_factory=dict)
    """Member epochs by member id; only of consumer groups."""
    assigned: dict[str, Assigned] = field(default_factory=dict)
    """Assignments by member id; only of consumer groups."""
    instances: int = 0

    def epoch_of(self, member_id: str) -> int:
        """The generation or member epoch for a member's commits; -1 without a member id."""
        if not member_id:
            return -1
        return self.epochs[member_id] if self.is_consumer else self.generation

    def new_instance_id(self) -> str | None:
        """The instance id of the next member; None for a dynamic member."""
        if not self.is_static:
            return None
        self.instances += 1
        return f"{self.group_id}-{self.instances}"

    @property
    def protocols(self) -> tuple[tuple[str, bytes], ...]:
        fields = {"topics": [self.topic], "userData": None}
        return (("range", encode_subscription(fields, 0)),)
