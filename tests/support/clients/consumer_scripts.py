"""Sequences of requests about consumer groups (KIP-848), for the model and for a broker of Kafka 4.

Clients choose their own member ids, and ids decide who gets what.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.support.clients.scripted_clients import CLIENT_HOST, ScriptedClients, offset

_JOINS: dict[str, Any] = {"rebalance_timeout_ms": 120_000, "owned": {}}


@dataclass
class Consumers:
    """Members of a consumer group, with the last answers to each of them."""

    clients: ScriptedClients
    group_id: str
    epochs: dict[str, int] = field(default_factory=dict)
    assigned: dict[str, dict[UUID, frozenset[int]]] = field(default_factory=dict)

    def join(self, member_id: str, *topics: str, **request: Any) -> None:
        """A member joins, or joins again."""
        self.beat(member_id, epoch=0, **{**_JOINS, "subscribed_topics": topics, **request})

    def beat(
        self, member_id: str, epoch: int | None = None, **request: Any
    ) -> ConsumerGroupHeartbeatResponse:
        """A member's heartbeat, in the epoch that it knows of."""
        self.clients.groups.add(self.group_id)
        answer = self.clients.coordinator.consumer_group_heartbeat(
            ConsumerGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id=member_id,
                member_epoch=self.epochs.get(member_id, 0) if epoch is None else epoch,
                client_id=f"client-{member_id}",
                client_host=CLIENT_HOST,
                **request,
            )
        )
        self.clients.note(f"{self.group_id}: {member_id}", answer)
        if not answer.error_code:
            self.epochs[member_id] = answer.member_epoch
            if answer.assigned is not None:
                self.assigned[member_id] = dict(answer.assigned)
        return answer

    def acknowledge(self, member_id: str) -> None:
        """A member says that it has what it was told to have, and no more."""
        self.beat(member_id, owned=self.assigned[member_id])

    def leave(self, member_id: str, **request: Any) -> None:
        self.beat(member_id, epoch=-1, **request)


def consumer_members(clients: ScriptedClients) -> None:
    """Members join, are assigned to, give up, wait for one another, change their mind and leave."""
    group = Consumers(clients, "consumers")
    group.beat("a", epoch=1)
    group.join("a", "t", "u")
    group.join("a", "t", "u")
    clients.commit(group.group_id, member_id="a", generation_id=1, version=9)
    group.join("b", "t", "u")
    # The first one is told what to give up, in its epoch, and takes its time.
    group.beat("a")
    group.beat("a")
    group.beat("b")
    clients.commit(group.group_id, offset(2), member_id="a", generation_id=1, version=9)
    clients.commit(group.group_id, offset(2), member_id="a", generation_id=2, version=9)
    clients.commit(group.group_id, offset(2), member_id="a", generation_id=1)
    clients.commit(group.group_id, offset(2), member_id="nobody", generation_id=1, version=9)
    clients.commit(group.group_id, offset(2), version=9)
    group.acknowledge("a")
    group.beat("b")
    group.acknowledge("b")
    group.beat("a", epoch=7)
    group.beat("a", epoch=1)
    group.beat("a", epoch=1, owned=group.assigned["a"])
    group.beat("nobody", epoch=3)
    # Two come while the others have not given up a thing.
    group.join("c", "t", "u")
    group.join("d", "t", "u")
    for member_id in ("a", "b", "c", "d", "a", "b"):
        group.beat(member_id)
    group.acknowledge("b")
    group.beat("c")
    group.beat("d")
    group.acknowledge("a")
    for member_id in ("c", "d", "c", "d"):
        group.acknowledge(member_id)
    # Somebody else's topics, with an assignor that does not mind.
    group.beat("a", subscribed_topics=["t"], server_assignor="range")
    for member_id in "bcd":
        group.beat(member_id, server_assignor="range", subscribed_topics=["t", "u"])
    for _ in range(3):
        for member_id in "abcd":
            group.acknowledge(member_id)
    group.beat("a", subscribed_topics=["t", "missing"])
    group.beat("b", subscribed_topics=[])
    group.acknowledge("b")
    clients.delete_offsets(group.group_id, ("t", 0))
    clients.delete_groups(group.group_id)
    group.leave("c")
    group.leave("nobody")
    for member_id in "abd":
        group.acknowledge(member_id)
    for member_id in "abd":
        group.leave(member_id)
    group.beat("a")
    clients.commit(group.group_id, offset(9), version=9)
    clients.fetch(group.group_id)
    group.join("e", "t")
    group.leave("e")
    clients.delete_groups(group.group_id)
    group.beat("e")


def bad_heartbeats(clients: ScriptedClients) -> None:
    """What is not looked at."""
    group = Consumers(clients, "bad")
    group.join("", "t")
    group.join("a", "t", rebalance_timeout_ms=-1)
    group.join("a", "t", owned=None)
    group.join("a", "t", subscribed_topics=None)
    group.join("a", "t", server_assignor="mine")
    group.join("a", "t", group_instance_id="")
    group.beat("a", epoch=-2)
    group.beat("a", epoch=-3)
    group.leave("a")
    Consumers(clients, "").join("a", "t")
    group.join("a", "t")
    group.leave("a", group_instance_id="unknown")
    # A commit of nobody makes a simple group, which gives way.
    clients.commit("simple-then-consumer", offset(3))
    Consumers(clients, "simple-then-consumer").join("a", "t")
    clients.commit("simple-then-consumer", offset(4), version=9)
    clients.commit(
        "simple-then-consumer",
        offset(5),
        member_id="a",
        generation_id=1,
        transactional_id="tx-consumer",
    )
    clients.commit(
        "simple-then-consumer",
        offset(5),
        member_id="a",
        generation_id=9,
        transactional_id="tx-consumer",
    )
    clients.end_transaction("tx-consumer", is_commit=True)
    clients.fetch("simple-then-consumer")


def static_consumers(clients: ScriptedClients) -> None:
    """Members with an instance id go away and are back with another id."""
    group = Consumers(clients, "static-consumers")
    group.join("a", "t", group_instance_id="one")
    group.join("b", "t", group_instance_id="two")
    group.acknowledge("a")
    group.beat("b", group_instance_id="two")
    group.join("c", "t", group_instance_id="one")
    group.beat("a", group_instance_id="two")
    group.beat("c", epoch=2, group_instance_id="one")
    group.beat("a", epoch=2, group_instance_id="three")
    group.beat("a", epoch=-2, group_instance_id="one")
    clients.commit(group.group_id, member_id="a", generation_id=2, version=9)
    group.join("c", "t", group_instance_id="one")
    group.acknowledge("c")
    group.beat("a")
    group.beat("c", epoch=-2, group_instance_id="one")
    # With other topics, it is another member to the group.
    group.join("d", "u", group_instance_id="one", server_assignor="range")
    group.beat("b")
    group.acknowledge("b")
    group.acknowledge("d")
    group.leave("d", group_instance_id="one")
    group.leave("b", group_instance_id="two")


CONSUMER_SCRIPTS: tuple[Callable[[ScriptedClients], None], ...] = (
    consumer_members,
    bad_heartbeats,
    static_consumers,
)
