"""Simulated members of groups, as their clients talk to the coordinator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from coordinator_state.model.consumer_group import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.records import record
from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatRequest,
    ErrorCode,
    JoinGroupRequest,
    JoinGroupResponse,
    MemberIdentity,
    Reply,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coordinator_state.model.topics import Topic
from coordinator_state.records.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from coordinator_state.records.record_types import RECORD_TYPES

Place = tuple[str, int]
"""A topic and a partition."""

_ROUNDS: Final = 6
"""The requests of a member in a tick: a rebalance takes a heartbeat, a join and a sync."""
_MAX_POLL_MS: Final = 300_000


@dataclass(slots=True, eq=False)
class Member:
    """A member, from its start to its end."""

    client_id: str
    host: str
    instance_id: str | None = None
    member_id: str = ""
    epoch: int = -1
    """The generation, or the member epoch."""
    places: list[Place] = field(default_factory=list)
    join: Reply[JoinGroupResponse] | None = None
    sync: Reply[SyncGroupResponse] | None = None


class Members(ABC):
    """The members of a group; those that live send heartbeats in each tick.

    Args:
        coordinator: the coordinator, at the current time.
        group_id: the group.
        topics: the names of the subscribed topics.
        before_revoking: called before a member gives its partitions back.
        session_timeout_ms: the session timeout of members of the classic protocol.
    """

    def __init__(
        self,
        coordinator: GroupCoordinator,
        group_id: str,
        topics: Sequence[str],
        before_revoking: Callable[[Member], None] = lambda _member: None,
        *,
        session_timeout_ms: int = 45_000,
    ) -> None:
        self.coordinator = coordinator
        self.group_id = group_id
        self.topics = list(topics)
        self.live: list[Member] = []
        self._before_revoking = before_revoking
        self._session_timeout_ms = session_timeout_ms
        self._started = 0

    def places(self) -> list[Place]:
        """All partitions of the subscribed topics."""
        return [
            (topic, partition)
            for topic in self.topics
            if topic in self._by_name
            for partition in range(self._by_name[topic].partitions)
        ]

    @property
    def _by_name(self) -> Mapping[str, Topic]:
        return self.coordinator.shard.topics.by_name

    def start(self, member: Member) -> None:
        """Start a member, which joins in the next tick."""
        self.live.append(member)
        self._started += 1

    def crash(self, member: Member) -> None:
        """A member dies; the coordinator notices that when its session expires."""
        self.live.remove(member)

    def leave(self, member: Member, *, for_good: bool = False) -> None:
        """A member commits, and leaves; a static one may return unless it leaves for good."""
        self._before_revoking(member)
        self._leave(member, may_return=member.instance_id is not None and not for_good)
        self.live.remove(member)

    def tick(self) -> bool:
        """Send the requests of all members, until none of them changes anything.

        Returns:
            Whether no member waits for an answer.
        """
        for _ in range(_ROUNDS):
            steps = [self._step(member) for member in self.live]
            if not any(steps):
                return not any(member.join or member.sync for member in self.live)
        return False

    @abstractmethod
    def _leave(self, member: Member, *, may_return: bool) -> None:
        """The request of a member that leaves."""

    @abstractmethod
    def _step(self, member: Member) -> bool:
        """The next request of a member; returns whether something changed."""


class ClassicMembers(Members):
    """Members of the classic protocol, with an eager assignor."""

    _is_cooperative = False

    def _leave(self, member: Member, *, may_return: bool) -> None:
        if not may_return:
            identity = MemberIdentity(
                member_id=member.member_id, group_instance_id=member.instance_id
            )
            self.coordinator.leave_group(self.group_id, [identity])

    def _step(self, member: Member) -> bool:
        if member.join is not None:
            return self._joined(member, member.join)
        if member.sync is not None:
            return self._synced(member, member.sync)
        error = ErrorCode.UNKNOWN_MEMBER_ID
        if member.member_id:
            error = self.coordinator.heartbeat(
                self.group_id, member.member_id, member.epoch, member.instance_id
            )
        if error is ErrorCode.NONE:
            return False
        if error is not ErrorCode.REBALANCE_IN_PROGRESS:
            member.member_id, member.places = "", []
        self.send_join(member)
        return True

    def send_join(self, member: Member) -> None:
        """Join the next generation; an eager member gives its partitions back first."""
        if not self._is_cooperative and member.places:
            self._before_revoking(member)
            member.places = []
        owned = [{"topic": t, "partitions": p} for t, p in _by_topic(member.places).items()]
        subscription = {"topics": self.topics, "userData": None, "ownedPartitions": owned}
        name = "cooperative-sticky" if self._is_cooperative else "range"
        member.join = self.coordinator.join_group(
            JoinGroupRequest(
                group_id=self.group_id,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                protocols=((name, encode_subscription(subscription, 1)),),
                session_timeout_ms=self._session_timeout_ms,
                rebalance_timeout_ms=_MAX_POLL_MS,
                client_id=member.client_id,
                client_host=member.host,
                requires_known_member_id=False,
            )
        )

    def _joined(self, member: Member, join: Reply[JoinGroupResponse]) -> bool:
        if join.answer is None:
            return False
        member.join = None
        answer = join.answer
        if answer.error_code is not ErrorCode.NONE:
            member.member_id = ""
            return True
        member.member_id, member.epoch = answer.member_id, answer.generation_id
        assignments = {} if answer.skip_assignment else self._assignments(answer.members)
        member.sync = self.coordinator.sync_group(
            SyncGroupRequest(
                group_id=self.group_id,
                member_id=member.member_id,
                generation_id=member.epoch,
                group_instance_id=member.instance_id,
                assignments=assignments,
            )
        )
        return True

    def _synced(self, member: Member, sync: Reply[SyncGroupResponse]) -> bool:
        if sync.answer is None:
            return False
        member.sync = None
        if sync.answer.error_code is ErrorCode.NONE:
            assigned = decode_assignment(sync.answer.assignment)["assignedPartitions"]
            before = member.places
            member.places = [(a["topic"], p) for a in assigned for p in a["partitions"]]
            if self._is_cooperative and set(before) - set(member.places):
                # The revoked partitions can be assigned to others now.
                self.send_join(member)
        return True

    def _assignments(self, members: Sequence[tuple[str, str | None, bytes]]) -> Mapping[str, bytes]:
        """The leader's assignment by member id; only the leader knows the members."""
        if not members:
            return {}
        # Static members keep their order when they come back with another id.
        ids = [member_id for member_id, _, _ in sorted(members, key=lambda m: m[1] or m[0])]
        owners: dict[Place, str] = {}
        for member_id, _, raw in members:
            for owned in decode_subscription(raw).get("ownedPartitions") or []:
                owners |= {(owned["topic"], p): member_id for p in owned["partitions"]}
        places = self.places()
        if not self._is_cooperative:
            wanted = {
                m: places[n * len(places) // len(ids) : (n + 1) * len(places) // len(ids)]
                for n, m in enumerate(ids)
            }
        else:
            wanted = _sticky(places, ids, owners)
        return {
            member_id: encode_assignment(
                {
                    "assignedPartitions": [
                        {"topic": t, "partitions": p} for t, p in _by_topic(own).items()
                    ],
                    "userData": None,
                },
                1,
            )
            for member_id, own in wanted.items()
        }


def _sticky(
    places: Sequence[Place], ids: Sequence[str], owners: Mapping[Place, str]
) -> dict[str, list[Place]]:
    """A balanced assignment that moves few partitions; those that move have nobody at first."""
    wanted: dict[str, list[Place]] = {member_id: [] for member_id in ids}
    most, larger = divmod(len(places), len(ids))
    free = []
    for place in places:
        own = wanted.get(owners.get(place, ""))
        limit = most + (sum(len(each) > most for each in wanted.values()) < larger)
        if own is not None and len(own) < limit:
            own.append(place)
        else:
            free.append(place)
    for place in free:
        fewest = min(wanted.values(), key=len)
        if owners.get(place) in wanted:
            continue
        fewest.append(place)
    return wanted


def _by_topic(places: Collection[Place]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in places:
        by_topic.setdefault(topic, []).append(partition)
    return by_topic


class CooperativeMembers(ClassicMembers):
    """Members of the classic protocol with a cooperative assignor."""

    _is_cooperative = True


class ConsumerMembers(Members):
    """Members of the protocol of KIP-848."""

    def start(self, member: Member) -> None:
        super().start(member)
        member.member_id = str(uuid5(NAMESPACE_URL, f"{self.group_id}/{self._started}"))
        member.epoch = JOIN_EPOCH

    def _leave(self, member: Member, *, may_return: bool) -> None:
        self._heartbeat(member, STATIC_LEAVE_EPOCH if may_return else LEAVE_EPOCH)

    def _step(self, member: Member) -> bool:
        joins: dict[str, Any] = {}
        if member.epoch == JOIN_EPOCH:
            joins = {"rebalance_timeout_ms": _MAX_POLL_MS, "subscribed_topics": self.topics}
        by_name = self._by_name
        names = {by_name[t].topic_id: t for t in self.topics if t in by_name}
        own = [p for p in member.places if p[0] in by_name]
        owned = {by_name[t].topic_id: frozenset(p) for t, p in _by_topic(own).items()}
        before = member.epoch, member.places
        answer = self._heartbeat(member, member.epoch, owned=owned, **joins)
        if answer.error_code is not ErrorCode.NONE:
            member.epoch, member.places = JOIN_EPOCH, []
            return True
        member.epoch = answer.member_epoch
        if answer.assigned is not None:
            places = [(names[i], p) for i, ps in answer.assigned.items() if i in names for p in ps]
            if set(member.places) - set(places):
                self._before_revoking(member)
            member.places = sorted(places)
        return before != (member.epoch, member.places)

    def _heartbeat(self, member: Member, epoch: int, **request: Any) -> Any:
        return self.coordinator.consumer_group_heartbeat(
            ConsumerGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id=member.member_id,
                member_epoch=epoch,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.host,
                **request,
            )
        )


class ShareMembers(Members):
    """Members of a share group (KIP-932), which share all partitions.

    The model of the coordinator has no share groups, so the records are written here.
    """

    _epoch = 0

    def start(self, member: Member) -> None:
        super().start(member)
        member.member_id = str(uuid5(NAMESPACE_URL, f"{self.group_id}/{member.client_id}"))
        member.epoch = 0

    def _leave(self, member: Member, *, may_return: bool) -> None:  # noqa: ARG002
        self._write({14: None, 10: None}, member)

    def _step(self, member: Member) -> bool:
        member.places = self.places()
        if member.epoch:
            return False
        self._epoch += 1
        member.epoch = self._epoch
        subscribed = {"clientId": member.client_id, "clientHost": member.host}
        state = {"memberEpoch": self._epoch, "previousMemberEpoch": 0, "state": 0}
        self._write(
            {
                10: {**subscribed, "subscribedTopicNames": self.topics},
                11: {"epoch": self._epoch, "metadataHash": 0},
                14: {**state, "assignedPartitions": self._assigned(member)},
            },
            member,
        )
        return True

    def _assigned(self, member: Member) -> list[dict[str, Any]]:
        return [
            {"topicId": self._by_name[topic].topic_id, "partitions": partitions}
            for topic, partitions in _by_topic(member.places).items()
        ]

    def _write(self, values: Mapping[int, Mapping[str, Any] | None], member: Member) -> None:
        group = {"groupId": self.group_id}
        keys = {number: {**group, "memberId": member.member_id} for number in values} | {11: group}
        records = [record(RECORD_TYPES[n], keys[n], value) for n, value in values.items()]
        self.coordinator.log.append(records, self.coordinator.shard.now_ms)
