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
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.cleaner import clean
from coordinator_state.model.consumer_group import ConsumerGroup
from coordinator_state.model.group import Group, Member
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.log import Producer, Written
from coordinator_state.model.topics import Topic, Topics
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.partitioner import partition_for

MINUTE_MS: Final = 60_000

_SESSION_MS: Final = 30 * MINUTE_MS
_HEARTBEAT_MS: Final = 10 * MINUTE_MS
_EXPIRY_CHECK_MS: Final = 10 * MINUTE_MS
_POLL_MS: Final = 1_000
_MAX_CONSUMED: Final = 500
_TOPICS: Final = 200
_OTHER_PROTOCOL_SHARE: Final = 0.1


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


@dataclass(slots=True, kw_only=True)
class _Application:
    """A program that consumes a topic; without members if its group is a simple one."""

    topic: str
    is_simple: bool
    is_static: bool
    producer: Producer | None
    group: Group
    consumed: list[int]
    """The next offset by partition."""
    instances: int = 0

    def new_member(self) -> Member:
        instance_id = None
        if self.is_static:
            self.instances += 1
            instance_id = f"{self.group.group_id}-{self.instances}"
        return self.client(instance_id)

    def client(self, instance_id: str | None) -> Member:
        return Member(self.group.group_id, "/127.0.0.1", instance_id)


class Workload:
    """A simulation in virtual time. `coordinators` has a coordinator for each log partition."""

    def __init__(self, settings: WorkloadSettings) -> None:
        self.settings = settings
        self.now_ms = settings.from_ms
        self._choose = random.Random(settings.seed)
        names = [_topic(number) for number in range(min(settings.groups, _TOPICS))]
        self.topics = Topics(
            {
                name: Topic(uuid5(NAMESPACE_URL, name), settings.partitions_per_group)
                for name in names
            }
        )
        self.coordinators = {
            log_partition: GroupCoordinator(
                settings.semantics,
                topics=self.topics,
                offsets_retention_ms=settings.offsets_retention_ms,
                seed=settings.seed * 1_000 + log_partition,
            )
            for log_partition in range(settings.log_partitions)
        }
        self._applications = [self._new(number) for number in range(settings.groups)]
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
            self._set_time(max(self.now_ms, int(due_ms)))
            action()
        self._set_time(until_ms)

    def run_until(self, records: int) -> None:
        """Advance the time until at least this many records are written.

        The last request may write more records.
        """
        while self.records < records and self._events:
            due_ms, _, action = heapq.heappop(self._events)
            self._set_time(max(self.now_ms, int(due_ms)))
            action()

    def logs(self) -> Iterator[tuple[int, bytes]]:
        """The log of each log partition."""
        for log_partition, coordinator in self.coordinators.items():
            yield log_partition, b"".join(coordinator.log.raw)

    def take(self) -> Iterator[Written]:
        """The records written since the last call, for each log partition that has any.

        Records that the cleaner removed before this call are not included.
        """
        for log_partition, coordinator in self.coordinators.items():
            if not coordinator.log.is_taken:
                yield coordinator.log.take(log_partition)

    def log_end_offsets(self) -> dict[tuple[str, int], int]:
        """The log ends by consumed topic and partition. Stopped groups fall behind them."""
        running_s = (self.now_ms - self.settings.from_ms) / 1000
        produced = int(running_s * 1000 / self.settings.commit_interval_ms * _MAX_CONSUMED / 2)
        log_ends: dict[tuple[str, int], int] = {}
        for application in self._applications:
            for partition, consumed in enumerate(application.consumed):
                key = (application.topic, partition)
                log_ends[key] = max(produced, consumed, log_ends.get(key, 0))
        return log_ends

    # --- scheduling

    def _begin(self) -> None:
        settings = self.settings
        interval_ms = settings.commit_interval_ms
        for application in self._applications:
            first_ms = self._choose.random() * interval_ms
            if not application.is_simple:
                self._at(first_ms, partial(self._start_all, application))
            self._each(interval_ms, partial(self._commit, application), first_ms)
            self._each(_HEARTBEAT_MS, partial(self._heartbeat, application), first_ms)
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

    def _set_time(self, now_ms: int) -> None:
        self.now_ms = now_ms
        for coordinator in self.coordinators.values():
            coordinator.now_ms = now_ms

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

    def _new(self, number: int) -> _Application:
        settings, choose = self.settings, self._choose
        group_id, topic = f"group-{number:06d}", _topic(number)
        is_simple = choose.random() < settings.simple_share
        is_transactional = not is_simple and choose.random() < settings.transactional_share
        is_consumer = not is_simple and choose.random() < settings.consumer_share
        return _Application(
            topic=topic,
            is_simple=is_simple,
            is_static=choose.random() < settings.static_share,
            producer=Producer(number, 0) if is_transactional else None,
            group=self._group(group_id, topic, is_consumer=is_consumer),
            consumed=[0] * settings.partitions_per_group,
        )

    def _group(self, group_id: str, topic: str, *, is_consumer: bool) -> Group:
        """A group without members; Kafka 3 has no consumer groups."""
        is_consumer = is_consumer and self.settings.semantics is Semantics.COORDINATOR
        return (ConsumerGroup if is_consumer else ClassicGroup)(
            self.coordinators[partition_for(group_id, self.settings.log_partitions)],
            group_id,
            [topic],
            session_timeout_ms=_SESSION_MS,
        )

    # --- members

    def _start_all(self, application: _Application) -> None:
        for _ in range(max(1, self.settings.members_per_group)):
            application.group.start(application.new_member())
        self._settle(application.group)

    def _heartbeat(self, application: _Application) -> None:
        application.group.tick()

    def _settle(self, group: Group) -> None:
        """Let the clients send heartbeats once a second until all have their assignment."""
        group.tick()
        if not group.is_settled:
            self._at(_POLL_MS, partial(self._settle, group))

    def _busy(self) -> _Application | None:
        """A random one; None if it has no members, or some of them wait for their assignment."""
        application = self._choose.choice(self._applications)
        group = application.group
        return application if group.is_settled and group.live else None

    def _change_members(self) -> None:
        """Let a member of a random group join, leave, or rejoin under its instance id."""
        application = self._busy()
        if application is None:
            return
        group, member = application.group, self._choose.choice(application.group.live)
        if member.instance_id is not None:
            group.leave(member)
            group.start(application.client(member.instance_id))
        elif len(group.live) > 1 and self._choose.random() < 0.5:
            group.leave(member)
        else:
            group.start(application.new_member())
        self._settle(group)

    def _stop(self) -> None:
        """Let all members of a random group leave and return later. Some groups are deleted."""
        application = self._busy()
        if application is None:
            return
        group = application.group
        for member in list(group.live):
            group.leave(member, for_good=True)
        draw = self._choose.random()
        if draw < 0.1:
            group.coordinator.delete_group(group.group_id)
        delay_ms = self._choose.uniform(1, 60) * MINUTE_MS
        if draw >= 0.8:
            # Long enough that the group's offsets expire.
            delay_ms += self.settings.offsets_retention_ms + _EXPIRY_CHECK_MS
        self._at(delay_ms, partial(self._restart_all, application))

    def _restart_all(self, application: _Application) -> None:
        """Let all members of a group return; a few groups then use the other protocol."""
        group = application.group
        if self.settings.consumer_share and self._choose.random() < _OTHER_PROTOCOL_SHARE:
            is_consumer = isinstance(group, ClassicGroup)
            application.group = self._group(
                group.group_id, application.topic, is_consumer=is_consumer
            )
        self._start_all(application)

    # --- offsets

    def _commit(self, application: _Application) -> None:
        group, producer, consumed = application.group, application.producer, application.consumed
        member = next(filter(group.has, group.live), None)
        if member is None and not application.is_simple:
            return
        for partition in range(len(consumed)):
            consumed[partition] += self._choose.randrange(_MAX_CONSUMED)
        offsets = {
            (application.topic, partition): offset for partition, offset in enumerate(consumed)
        }
        if group.commit(offsets, member, producer) and producer is not None:
            is_commit = self._choose.random() >= self.settings.aborted_share
            end = partial(group.coordinator.end_transaction, producer, is_commit=is_commit)
            # End it 1 ms later: records of other groups come in between, but none of this group.
            self._at(1, end)

    def _expire(self) -> None:
        for coordinator in self.coordinators.values():
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


def _topic(number: int) -> str:
    return f"topic-{number % _TOPICS:03d}"
