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
    MemberIdentity,
)
from coordinator_state.records.consumer_protocol import encode_subscription
from tests.support.clients.told import CLIENT_HOST, Told, assignment, offset, subscription

_JOINS: dict[str, Any] = {"rebalance_timeout_ms": 120_000, "owned": {}}
_OLD: dict[str, Any] = {"requires_known_member_id": False}
# Ids that a coordinator draws have no order in common but one: static members, then a before b.
_RANGE: dict[str, Any] = {"server_assignor": "range"}
# Members that do not sync or join again in time are out, however busy the machine is.
_SLOW: dict[str, Any] = {"rebalance_timeout_ms": 120_000}


@dataclass
class Consumers:
    """Members of a consumer group, with what each of them was last told."""

    told: Told
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
        self.told.groups.add(self.group_id)
        answer = self.told.coordinator.consumer_heartbeat(
            ConsumerGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id=member_id,
                member_epoch=self.epochs.get(member_id, 0) if epoch is None else epoch,
                client_id=f"client-{member_id}",
                client_host=CLIENT_HOST,
                **request,
            )
        )
        self.told.note(f"{self.group_id}: {member_id}", answer)
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


def consumer_members(told: Told) -> None:
    """Members join, are assigned to, give up, wait for one another, change their mind and leave."""
    group = Consumers(told, "consumers")
    group.beat("a", epoch=1)
    group.join("a", "t", "u")
    group.join("a", "t", "u")
    told.commit(group.group_id, member_id="a", generation_id=1, version=9)
    group.join("b", "t", "u")
    # The first one is told what to give up, in its epoch, and takes its time.
    group.beat("a")
    group.beat("a")
    group.beat("b")
    told.commit(group.group_id, offset(2), member_id="a", generation_id=1, version=9)
    told.commit(group.group_id, offset(2), member_id="a", generation_id=2, version=9)
    told.commit(group.group_id, offset(2), member_id="a", generation_id=1)
    told.commit(group.group_id, offset(2), member_id="nobody", generation_id=1, version=9)
    told.commit(group.group_id, offset(2), version=9)
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
    told.note("delete", told.coordinator.delete_offsets(group.group_id, [("t", 0)]))
    told.note("delete", told.coordinator.delete_groups([group.group_id]))
    group.leave("c")
    group.leave("nobody")
    for member_id in "abd":
        group.acknowledge(member_id)
    for member_id in "abd":
        group.leave(member_id)
    group.beat("a")
    told.commit(group.group_id, offset(9), version=9)
    told.note("fetch", told.coordinator.fetch(group.group_id, None))
    group.join("e", "t")
    group.leave("e")
    told.note("delete", told.coordinator.delete_groups([group.group_id]))
    group.beat("e")


def bad_heartbeats(told: Told) -> None:
    """What is not looked at."""
    group = Consumers(told, "bad")
    group.join("", "t")
    group.join("a", "t", rebalance_timeout_ms=-1)
    group.join("a", "t", owned=None)
    group.join("a", "t", subscribed_topics=None)
    group.join("a", "t", server_assignor="mine")
    group.join("a", "t", group_instance_id="")
    group.beat("a", epoch=-2)
    group.beat("a", epoch=-3)
    group.leave("a")
    Consumers(told, "").join("a", "t")
    group.join("a", "t")
    group.leave("a", group_instance_id="unknown")
    # A commit of nobody makes a simple group, which gives way.
    told.commit("simple-then-consumer", offset(3))
    Consumers(told, "simple-then-consumer").join("a", "t")
    told.commit("simple-then-consumer", offset(4), version=9)
    told.commit(
        "simple-then-consumer",
        offset(5),
        member_id="a",
        generation_id=1,
        transactional_id="tx-consumer",
    )
    told.commit(
        "simple-then-consumer",
        offset(5),
        member_id="a",
        generation_id=9,
        transactional_id="tx-consumer",
    )
    told.coordinator.end_transaction("tx-consumer", is_commit=True)
    told.note("fetch", told.coordinator.fetch("simple-then-consumer", None))


def static_consumers(told: Told) -> None:
    """Members with an instance id go away and are back with another id."""
    group = Consumers(told, "static-consumers")
    group.join("a", "t", group_instance_id="one")
    group.join("b", "t", group_instance_id="two")
    group.acknowledge("a")
    group.beat("b", group_instance_id="two")
    group.join("c", "t", group_instance_id="one")
    group.beat("a", group_instance_id="two")
    group.beat("c", epoch=2, group_instance_id="one")
    group.beat("a", epoch=2, group_instance_id="three")
    group.beat("a", epoch=-2, group_instance_id="one")
    told.commit(group.group_id, member_id="a", generation_id=2, version=9)
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


def migrations(told: Told) -> None:
    """A classic group becomes a consumer group and, when the new members are gone, one again."""
    group = Consumers(told, "migrated")
    group_id = group.group_id
    a = told.join("a", group_id, **_OLD, **_SLOW).member_id
    told.sync("a", group_id, a, 1, assignments={a: assignment(0, 1, 2)})
    told.commit(group_id, member_id=a, generation_id=1)
    group.join("b", "t", **_RANGE)
    told.heartbeat(group_id, a, 1)
    told.sync("a", group_id, a, 1)
    told.commit(group_id, offset(2), member_id=a, generation_id=1)
    told.commit(group_id, offset(2), member_id=a, generation_id=2)
    told.join("a", group_id, a, protocols=(("range", _owning(0, 1, 2)),), **_SLOW)
    told.sync("a", group_id, a, 2, protocol_name="sticky")
    told.sync("a", group_id, a, 1)
    told.sync("a", group_id, a, 2)
    told.sync("a", group_id, a, 2, protocol_type="connect")
    told.heartbeat(group_id, a, 2)
    told.heartbeat(group_id, a, 2, instance_id="unknown")
    told.heartbeat(group_id, "b", 2)
    told.sync("b", group_id, "b", 2)
    for _ in range(2):
        joined = told.join("a", group_id, a, protocols=(("range", _owning(0)),), **_SLOW)
        told.sync("a", group_id, a, joined.generation_id)
        told.heartbeat(group_id, a, joined.generation_id)
        group.acknowledge("b")
    # One that knows another protocol, one that has to be given an id, one that stays out.
    told.join("c", group_id, protocols=(("sticky", subscription("t")),), **_SLOW)
    told.join("c", group_id, **_SLOW)
    c = told.join("c", group_id, group_instance_id="c", **_SLOW).member_id
    told.leave(
        group_id,
        MemberIdentity(member_id=c, group_instance_id="c"),
        MemberIdentity(member_id="nobody"),
    )
    told.leave(group_id, MemberIdentity(group_instance_id="unknown"))
    told.note("delete", told.coordinator.delete_groups([group_id]))
    group.leave("b")
    told.heartbeat(group_id, a, 2)
    rejoined = told.join("a", group_id, a, protocols=(("range", _owning(0)),), **_SLOW)
    generation = rejoined.generation_id
    told.sync("a", group_id, a, generation, assignments={a: assignment(0)})
    told.commit(group_id, offset(3), member_id=a, generation_id=generation)
    group.join("b", "t", **_RANGE)
    told.leave(group_id, MemberIdentity(member_id=a))
    group.acknowledge("b")
    group.leave("b")
    # Nobody is in it: a classic member makes it a classic group at once.
    d = told.join("d", group_id, **_OLD, **_SLOW).member_id
    told.sync("d", group_id, d, 1, assignments={d: assignment(0)})
    told.leave(group_id, MemberIdentity(member_id=d))
    group.join("b", "t", **_RANGE)
    told.note("fetch", told.coordinator.fetch(group_id, None))
    connect = {"protocol_type": "connect", "protocols": (("default", b"\x00"),), **_OLD}
    told.join("w", "connect-not-migrated", **connect)
    Consumers(told, "connect-not-migrated").join("a", "t")


def static_migrations(told: Told) -> None:
    """The last member of the new protocol comes back with the classic one."""
    group = Consumers(told, "static-migrated")
    group_id = group.group_id
    a = told.join("a", group_id, group_instance_id="one", **_SLOW).member_id
    told.sync("a", group_id, a, 1, assignments={a: assignment(0, 1)})
    # It is back with the new protocol; there is nobody else.
    group.join("a2", "t", group_instance_id="one")
    told.sync("a", group_id, a, 1)
    group.acknowledge("a2")
    told.join("a", group_id, group_instance_id="one", **_SLOW)
    told.heartbeat(group_id, a, 1)


def forgotten_groups(told: Told) -> None:
    """Nobody is in a consumer group, and somebody comes to it with an id of before."""
    group = Consumers(told, "forgotten")
    group.join("a", "t")
    group.join("b", "t")
    group.leave("b")
    group.leave("a")
    told.join("c", group.group_id, "c-of-before")
    told.heartbeat(group.group_id, "c-of-before", 1)
    group.join("a", "t")


def _owning(*partitions: int) -> bytes:
    owned = [{"topic": "t", "partitions": list(partitions)}]
    fields = {"topics": ["t"], "userData": None, "ownedPartitions": owned}
    return encode_subscription(fields, 1)


CONSUMER_SCRIPTS: tuple[Callable[[Told], None], ...] = (
    consumer_members,
    bad_heartbeats,
    static_consumers,
    migrations,
    static_migrations,
    forgotten_groups,
)
