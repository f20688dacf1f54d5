"""What the state machine of `property/test_model.py` does in consumer groups (KIP-848)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from coordinator_state.model.consumer_group import LiveConsumerGroup
from coordinator_state.model.consumer_member import ConsumerMember
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.requests import ConsumerGroupHeartbeatRequest
from coordinator_state.model.topics import Topic, Topics

GROUPS = ("g", "h")
TOPICS = Topics({"t": Topic(UUID(int=1), 4), "u": Topic(UUID(int=2), 2)})
REBALANCE_MS = 20_000

groups = st.sampled_from(GROUPS)
members = st.sampled_from(["x", "y", "z"])
subscriptions = st.sampled_from([["t"], ["u"], ["t", "u"], ["t", "missing"], []])


class ConsumerRules(RuleBasedStateMachine):
    """Clients that do what they are told, or not; the groups may be classic ones as well."""

    coordinator: GroupCoordinator

    @rule(
        group_id=groups,
        member_id=members,
        instance_id=st.sampled_from([None, None, "i1", "i2"]),
        subscription=subscriptions,
        assignor=st.sampled_from([None, None, "range", "uniform"]),
    )
    def consumer_joins(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        subscription: list[str],
        assignor: str | None,
    ) -> None:
        self._beat(
            group_id,
            member_id,
            0,
            instance_id,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topics=subscription,
            server_assignor=assignor,
            owned={},
        )

    @rule(group_id=groups, member_id=members, subscription=subscriptions)
    def consumer_changes(self, group_id: str, member_id: str, subscription: list[str]) -> None:
        member = self._consumer(group_id, member_id)
        if member is not None:
            self._go_on(group_id, member, subscribed_topics=subscription)

    @rule(group_id=groups, rounds=st.integers(1, 4), acknowledge=st.booleans())
    def consumers_beat(self, group_id: str, rounds: int, acknowledge: bool) -> None:
        """All of them, once or until they are all settled."""
        for _ in range(rounds):
            group = self.coordinator.groups.get(group_id)
            for member in list(group.members.values()) if group is not None else []:
                if isinstance(member, ConsumerMember) and member.classic is None:
                    self._go_on(group_id, member, owned=member.assigned if acknowledge else None)

    @rule(group_id=groups, member_id=members, epoch=st.sampled_from([-1, -2]))
    def consumer_leaves(self, group_id: str, member_id: str, epoch: int) -> None:
        member = self._consumer(group_id, member_id)
        if member is not None:
            self._beat(group_id, member_id, epoch, member.group_instance_id)

    def _consumer(self, group_id: str, member_id: str) -> ConsumerMember | None:
        group = self.coordinator.groups.get(group_id)
        return group.members.get(member_id) if isinstance(group, LiveConsumerGroup) else None

    def _go_on(self, group_id: str, member: ConsumerMember, **request: Any) -> None:
        epoch = max(member.member_epoch, 1)
        self._beat(group_id, member.member_id, epoch, member.group_instance_id, **request)

    def _beat(
        self, group_id: str, member_id: str, epoch: int, instance_id: str | None, **request: Any
    ) -> None:
        self.coordinator.consumer_group_heartbeat(
            ConsumerGroupHeartbeatRequest(
                group_id=group_id,
                member_id=member_id,
                member_epoch=epoch,
                group_instance_id=instance_id,
                **request,
            )
        )
