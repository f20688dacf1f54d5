"""Members of simulated consumer groups (KIP-848), as their clients see the coordinator."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from coordinator_state.model.consumer_member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatRequest,
)
from coordinator_state.model.simulated_group import MINUTE_MS, SimulatedGroup

_REBALANCE_MS: Final = 5 * MINUTE_MS


@dataclass(slots=True)
class SimulatedConsumers:
    """Simulates the clients of consumer groups.

    `coordinator` returns the coordinator of a group, advanced to the current time.
    """

    coordinator: Callable[[SimulatedGroup], GroupCoordinator]
    choose: random.Random

    def join(self, group: SimulatedGroup, instance_id: str | None) -> None:
        """Add a new member, or bring a static member back under its instance id."""
        member_id = str(UUID(int=self.choose.getrandbits(128), version=4))
        group.members[member_id] = instance_id
        self._rejoin(group, member_id)

    def _rejoin(self, group: SimulatedGroup, member_id: str) -> None:
        group.epochs[member_id], group.assigned[member_id] = JOIN_EPOCH, {}
        self._send_heartbeat(
            group,
            member_id,
            rebalance_timeout_ms=_REBALANCE_MS,
            subscribed_topics=[group.topic],
            owned={},
        )

    def reconcile(self, group: SimulatedGroup) -> bool:
        """Send a heartbeat of each member and take the answers.

        Returns:
            Whether no epoch or assignment changed, so that all members are reconciled.
        """
        before = (dict(group.epochs), dict(group.assigned))
        for member_id in list(group.members):
            if group.epochs[member_id] == JOIN_EPOCH:
                self._rejoin(group, member_id)
            else:
                self._send_heartbeat(group, member_id, owned=group.assigned[member_id])
        return before == (group.epochs, group.assigned)

    def change(self, group: SimulatedGroup, member_id: str) -> None:
        """Remove the member, add a new one, or let a static member rejoin with a new id."""
        instance_id = group.members[member_id]
        if instance_id is not None:
            self._send_heartbeat(group, member_id, STATIC_LEAVE_EPOCH)
            self._forget(group, member_id)
            self.join(group, instance_id)
        elif len(group.members) > 1 and self.choose.random() < 0.5:
            self.leave(group, [member_id])
        else:
            self.join(group, None)

    def leave(self, group: SimulatedGroup, member_ids: Sequence[str]) -> None:
        """Let members leave."""
        for member_id in member_ids:
            self._send_heartbeat(group, member_id, LEAVE_EPOCH)
            self._forget(group, member_id)

    def _send_heartbeat(
        self, group: SimulatedGroup, member_id: str, epoch: int | None = None, **request: Any
    ) -> None:
        answer = self.coordinator(group).consumer_group_heartbeat(
            ConsumerGroupHeartbeatRequest(
                group_id=group.group_id,
                member_id=member_id,
                member_epoch=group.epochs[member_id] if epoch is None else epoch,
                group_instance_id=group.members[member_id],
                client_id=group.group_id,
                **request,
            )
        )
        if answer.error_code is ErrorCode.NONE:
            group.epochs[member_id] = answer.member_epoch
            if answer.assigned is not None:
                group.assigned[member_id] = answer.assigned
        elif answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            # Like a client whose session expired: the next heartbeat joins.
            group.epochs[member_id], group.assigned[member_id] = JOIN_EPOCH, {}

    @staticmethod
    def _forget(group: SimulatedGroup, member_id: str) -> None:
        for known in (group.members, group.epochs, group.assigned):
            known.pop(member_id, None)
