"""Incidents of a group: each function lets one happen and ends in the middle of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from coordinator_state.insight.group_status import Cause
from coordinator_state.records.record_types import NO_PRODUCER_ID
from coordinator_state.replay.partitioner import partition_for
from tests.support.tables.incident_tables import (
    STEP_S,
    Cluster,
    client_id_of,
    member_id_of,
    write_tables,
)

GROUP = "orders-app"
TOPIC = "orders"
START = datetime(2026, 3, 2, 8, tzinfo=timezone.utc)
PRODUCER_ID = 7
_PARTITIONS = 4


@dataclass
class Incident:
    """A topic and its only group, with a log partition of its own.

    Every step the producers write, the members read and commit, and the logs are sampled.
    """

    group: str = GROUP
    topic: str = TOPIC
    start: datetime = START
    log_partitions: int = 1
    produce_per_s: float = 20.0
    """Records per second and partition."""
    read_per_s: float = 100.0
    """The most records that a member reads per second."""
    producer_id: int = NO_PRODUCER_ID
    ends_with: bool | None = True
    """Whether a transaction commits; None leaves it open."""
    reads: bool = True
    slow: dict[int, float] = field(default_factory=dict)
    """The most records read per second, by partition."""
    poison: dict[int, int] = field(default_factory=dict)
    """The offset that the group cannot pass, by partition."""
    members: dict[str, list[int]] = field(default_factory=dict)
    """The partitions of each member, by member id."""

    def __post_init__(self) -> None:
        log_partition = partition_for(self.group, self.log_partitions)
        self.cluster = Cluster(begin=self.start, log_partition=log_partition)
        partitions = range(_PARTITIONS)
        self.logs = {number: self.cluster.logs[self.topic, number] for number in partitions}
        self.consumed = dict.fromkeys(partitions, 0.0)
        self._generation = 0
        self._joined = 0

    @property
    def now(self) -> datetime:
        return self.cluster.now

    def run(
        self,
        *,
        minutes: float = 0,
        seconds: float = 0,
        each: Callable[[], None] | None = None,
        **changes: Any,
    ) -> Incident:
        """Let time pass after changes of attributes; `each` is called every step."""
        for name, value in changes.items():
            assert hasattr(self, name)
            setattr(self, name, value)
        for _ in range(round((minutes * 60 + seconds) / STEP_S)):
            self.cluster.seconds += STEP_S
            for log in self.logs.values():
                log.end += round(self.produce_per_s * STEP_S)
            if self.reads:
                self.read()
            if each is not None:
                each()
            self.cluster.sample()
        return self

    # --- members

    def join(self, *client_ids: str) -> Incident:
        """New members join, and all members rejoin."""
        return self.rebalance(joining=client_ids)

    def leave(self, *client_ids: str) -> Incident:
        """Members leave, and the others rejoin."""
        return self.rebalance(leaving=client_ids)

    def rebalance(
        self,
        *,
        joining: Collection[str] = (),
        leaving: Collection[str] = (),
        unassigned: Collection[int] = (),
    ) -> Incident:
        """Members leave and join, and the leader leaves some partitions out of the assignment."""
        if joining and not self.members:
            if not self._generation:
                self.cluster.no_members(self.group, 0)
            # Kafka waits for further members of an empty group.
            self.cluster.seconds += 1
        members = [member for member in self.members if client_id_of(member) not in leaving]
        for client_id in joining:
            self._joined += 1
            members.append(member_id_of(client_id, self._joined))
        self.members = {member_id: [] for member_id in sorted(members)}
        owned_by_member = list(self.members.values())
        for partition in self.logs:
            if members and partition not in unassigned:
                owned_by_member[partition % len(members)].append(partition)
        self._generation += 1
        assigned = {member_id: {self.topic: owned} for member_id, owned in self.members.items()}
        self.cluster.assign(self.group, assigned, self._generation)
        return self

    # --- offsets

    def read(self) -> None:
        """Each member reads its partitions and commits."""
        for owned in self.members.values():
            for partition in owned:
                self._read(partition, self.read_per_s * STEP_S / len(owned))
            self.commit(owned, leader_epoch=0)

    def _read(self, partition: int, most: float) -> None:
        most = min(most, self.slow.get(partition, most / STEP_S) * STEP_S)
        until = min(self.consumed[partition] + most, self.logs[partition].end)
        self.consumed[partition] = min(until, self.poison.get(partition, until))

    def commit(self, partitions: Iterable[int], leader_epoch: int | None = None) -> None:
        """Commit the consumed offsets of partitions."""
        for partition in partitions:
            self.cluster.commit(
                self.group,
                round(self.consumed[partition]),
                partition,
                self.topic,
                producer_id=self.producer_id,
                leader_epoch=leader_epoch,
            )
        if self.producer_id != NO_PRODUCER_ID and self.ends_with is not None:
            self.cluster.end_transaction(self.producer_id, aborts=not self.ends_with)

    def assign_and_commit(self) -> None:
        """A consumer with `assign()` and no member reads all partitions and commits."""
        for partition in self.logs:
            self._read(partition, self.read_per_s * STEP_S)
        self.commit(self.logs)

    def delete(self, *partitions: int) -> None:
        """Delete the offsets of partitions, or those of the group and the group."""
        for partition in partitions or self.logs:
            self.cluster.commit(self.group, None, partition, self.topic)
        if not partitions:
            self.cluster.delete_group(self.group)

    def tables(self, folder: Path) -> str:
        """Write the tables of the whole log."""
        return write_tables(folder, [self.cluster], self.log_partitions)


def healthy(**settings: Any) -> Incident:
    """A group of two members that has kept up for half an hour."""
    return Incident(**settings).join("app-a", "app-b").run(minutes=30)


def simple(**settings: Any) -> Incident:
    """A consumer with `assign()` that has kept up for half an hour."""
    incident = Incident(**settings)
    return incident.run(minutes=30, each=incident.assign_and_commit)


# --- the incidents of the demo


def caught_up(**settings: Any) -> Incident:
    return healthy(**settings)


def rewound_by_a_consumer(**settings: Any) -> Incident:
    incident = simple(**settings)
    incident.consumed = dict.fromkeys(incident.consumed, 0.0)
    return incident.run(minutes=3, each=incident.assign_and_commit)


def stuck_without_a_commit(**settings: Any) -> Incident:
    return simple(**settings).run(minutes=3)


def rebalances_again_and_again(**settings: Any) -> Incident:
    incident = healthy(**settings)
    for _ in range(12):
        incident.join("app-c").run(seconds=10)
        incident.leave("app-c").run(seconds=10)
    return incident


def aborts_every_transaction(**settings: Any) -> Incident:
    return healthy(producer_id=PRODUCER_ID, **settings).run(minutes=3, ends_with=False)


def never_ends_a_transaction(**settings: Any) -> Incident:
    incident = healthy(producer_id=PRODUCER_ID, **settings)
    return incident.run(seconds=5, ends_with=None).run(minutes=3, reads=False)


def has_offsets_deleted(**settings: Any) -> Incident:
    incident = simple(**settings)

    def commit_and_delete() -> None:
        incident.assign_and_commit()
        incident.delete(1)

    return incident.run(minutes=4, each=commit_and_delete)


def is_deleted(**settings: Any) -> Incident:
    incident = simple(**settings)
    incident.delete()
    return incident.run(minutes=1)


# --- other incidents


def producers_write_ten_times_more() -> Incident:
    return healthy().run(minutes=5, produce_per_s=200.0)


def one_partition_is_slow() -> Incident:
    return healthy().run(minutes=10, slow={2: 4.0})


def a_member_left() -> Incident:
    return healthy(read_per_s=60.0).leave("app-b").run(minutes=6)


def a_deploy_replaces_all_members() -> Incident:
    incident = Incident(read_per_s=60.0)
    old, new = ([f"app-{letter}" for letter in letters] for letters in ("abc", "def"))
    incident.join(*old).run(minutes=30)
    for before, after in zip(old, new, strict=True):
        incident.leave(before).run(seconds=20)
        incident.join(after).run(seconds=20)
    return incident.run(minutes=5, read_per_s=20.0)


def a_storm_of_deploys() -> Incident:
    incident = healthy()
    members = ["app-a", "app-b"]
    for number in range(4):
        for index in (0, 1):
            incident.leave(members[index])
            members[index] = f"app-{number}-{index}"
            incident.join(members[index]).run(seconds=40, read_per_s=15.0)
    return incident


def one_record_is_poison() -> Incident:
    incident = healthy()
    return incident.run(minutes=4, poison={1: round(incident.consumed[1]) + 50})


def a_transaction_outlives_its_member() -> Incident:
    return never_ends_a_transaction().leave("app-a", "app-b").run(minutes=2)


def all_members_leave() -> Incident:
    return healthy().leave("app-a", "app-b").run(minutes=3)


def an_admin_resets_to_earliest() -> Incident:
    incident = healthy().leave("app-a", "app-b").run(seconds=20)
    incident.consumed = dict.fromkeys(incident.consumed, 0.0)
    incident.commit(incident.logs)
    return incident.join("app-a", "app-b").run(minutes=3)


def the_topic_is_created_again() -> Incident:
    incident = healthy()
    for log in incident.logs.values():
        log.end, log.topic_id = 0, "another T"
    return incident.run(minutes=3, reads=False)


def the_topic_is_deleted() -> Incident:
    incident = healthy()
    for log in incident.logs.values():
        log.state = "gone"
    return incident.run(minutes=3, reads=False)


def the_offsets_expire() -> Incident:
    incident = healthy().leave("app-a", "app-b").run(minutes=25)
    incident.delete()
    return incident.run(minutes=1)


def a_partition_has_no_owner() -> Incident:
    return healthy().rebalance(unassigned=[3]).run(minutes=4)


def records_are_deleted_unread() -> Incident:
    incident = healthy().run(minutes=5, reads=False)
    for log in incident.logs.values():
        log.start = log.end - 1_000
    return incident.run(minutes=1)


def members_read_slower() -> Incident:
    return healthy().run(minutes=6, read_per_s=10.0)


Case = Callable[..., Incident]

CASES: list[tuple[Case, Cause]] = [
    (caught_up, Cause.CAUGHT_UP),
    (rewound_by_a_consumer, Cause.OFFSET_REWIND),
    (stuck_without_a_commit, Cause.NO_COMMITS),
    (rebalances_again_and_again, Cause.REBALANCES),
    (aborts_every_transaction, Cause.ABORTED_TRANSACTIONS),
    (never_ends_a_transaction, Cause.OPEN_TRANSACTION),
    (has_offsets_deleted, Cause.OFFSET_DELETED),
    (is_deleted, Cause.GROUP_DELETED),
    (producers_write_ten_times_more, Cause.PRODUCTION_RATE),
    (one_partition_is_slow, Cause.ONE_PARTITION),
    (a_member_left, Cause.MEMBERS_LEFT),
    (a_deploy_replaces_all_members, Cause.DEPLOY),
    (a_storm_of_deploys, Cause.DEPLOY),
    (one_record_is_poison, Cause.SAME_OFFSET),
    (a_transaction_outlives_its_member, Cause.OPEN_TRANSACTION),
    (all_members_leave, Cause.NO_MEMBERS),
    (an_admin_resets_to_earliest, Cause.OFFSET_RESET),
    (the_topic_is_created_again, Cause.TOPIC_RECREATED),
    (the_topic_is_deleted, Cause.TOPIC_DELETED),
    (the_offsets_expire, Cause.OFFSET_EXPIRED),
    (a_partition_has_no_owner, Cause.NO_OWNER),
    (records_are_deleted_unread, Cause.DATA_LOSS),
    (members_read_slower, Cause.CONSUMPTION_RATE),
]
"""Each incident, and the cause that `explain` must find first."""
