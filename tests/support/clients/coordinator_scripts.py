"""Sequences of requests that are put to the model and to real brokers.

A script asks a coordinator and notes each answer under a name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator_state.model.requests import MemberIdentity
from tests.support.clients.scripted_clients import ScriptedClients, assignment, offset, subscription

TOPICS = ("t", "u")
METADATA_TOO_LONG = "x" * 4_097


def rebalances(clients: ScriptedClients) -> None:
    """Dynamic members come and go; what each of them may ask when."""
    group = "rebalances"
    a = clients.join("a", group).member_id
    clients.join("a", group, a, protocol_type="connect")
    first = clients.join("a", group, a)
    clients.heartbeat(group, a, first.generation_id)
    clients.commit(group, member_id=a, generation_id=1)
    clients.sync(group, "nobody", 1)
    clients.sync(group, a, 7)
    clients.sync(group, a, 1, protocol_name="roundrobin")
    clients.sync(group, a, 1, protocol_type="connect")
    clients.sync(group, a, 1, assignments={a: assignment(0)}, protocol_name="range")
    clients.sync(group, a, 1)
    clients.heartbeat(group, a, 1)
    clients.heartbeat(group, a, 7)
    clients.heartbeat(group, "nobody", 1)
    clients.commit(group, offset(1), offset(2, partition=1), member_id=a, generation_id=1)
    clients.commit(group, offset(3), offset(4, "u", metadata="m", leader_epoch=5))
    clients.commit(group, offset(3, "u"), member_id=a, generation_id=7)
    clients.commit(group, offset(3, "u"), member_id="nobody", generation_id=1)
    clients.commit(group, offset(5, metadata=METADATA_TOO_LONG), member_id=a, generation_id=1)
    # Another one comes; the first has to come again.
    b = clients.join("b", group).member_id
    b_joins = clients.begin_join("b", group, b)
    clients.heartbeat(group, a, 1)
    clients.sync(group, a, 1)
    clients.commit(group, offset(6), member_id=a, generation_id=1)
    clients.joined(("a", clients.begin_join("a", group, a)), ("b", b_joins))
    b_syncs = clients.begin_sync(group, b, 2)
    clients.commit(group, offset(7), member_id=a, generation_id=2)
    clients.sync(group, a, 2, assignments={a: assignment(0), "nobody": b"x"})
    clients.coordinator.settle(b_syncs)
    clients.note("sync b, whom the leader left out", b_syncs.get())
    # A follower that joins as it is is told what it knows; the leader makes a rebalance.
    clients.join("b", group, b)
    a_joins = clients.begin_join("a", group, a)
    clients.heartbeat(group, b, 2)
    clients.joined(("b", clients.begin_join("b", group, b)), ("a", a_joins))
    clients.sync(group, a, 3, assignments={a: assignment(1), b: assignment(0)})
    clients.sync(group, b, 3)
    clients.leave(group, "nobody")
    clients.leave(group, a)
    clients.join("b", group, b)
    clients.sync(group, b, 4, assignments={b: assignment(0)})
    clients.delete_groups(group)
    clients.delete_offsets(group, ("t", 0), ("u", 0))
    clients.leave(group, b)
    clients.heartbeat(group, b, 4)
    clients.sync(group, b, 4)
    clients.commit(group, offset(8))
    clients.fetch(group)
    clients.fetch(group, ("t", 0), ("u", 0), ("u", 9))
    clients.delete_groups(group, "unknown")
    clients.heartbeat(group, b, 4)
    clients.sync(group, b, 4)
    clients.join("b", group, b)
    clients.leave(group, b)
    clients.fetch(group, ("t", 0))
    clients.delete_offsets(group, ("t", 0))


def static_members(clients: ScriptedClients) -> None:
    """Members with an instance id come back without a rebalance; who had it before is fenced."""
    group = "static"
    old_client: dict[str, Any] = {"supports_skipping_assignment": False}
    a_joins = clients.begin_join("a", group, group_instance_id="one")
    b_joins = clients.begin_join("b", group, group_instance_id="two")
    a, b = (answer.member_id for answer in clients.joined(("a", a_joins), ("b", b_joins)))
    clients.sync(group, a, 1, assignments={a: assignment(0), b: assignment(1)})
    clients.sync(group, b, 1, group_instance_id="two")
    a2 = clients.join("a", group, group_instance_id="one").member_id
    clients.sync(group, a2, 1, group_instance_id="one")
    clients.sync(group, a, 1, group_instance_id="one")
    clients.heartbeat(group, a, 1, "one")
    clients.heartbeat(group, a, 1)
    clients.heartbeat(group, a2, 1, "unknown")
    clients.commit(group, member_id=a, generation_id=1, group_instance_id="one")
    clients.commit(group, member_id=a2, generation_id=1, group_instance_id="one")
    b2 = clients.join("b", group, group_instance_id="two", **old_client).member_id
    a3 = clients.join("a", group, group_instance_id="one", **old_client).member_id
    clients.join("a", group, a2, group_instance_id="one")
    clients.leave(group, MemberIdentity(member_id=a2, group_instance_id="one"))
    clients.leave(group, MemberIdentity(group_instance_id="unknown"))
    clients.leave(group, MemberIdentity(group_instance_id="two"), b2)
    clients.join("a", group, a3, group_instance_id="one")
    clients.sync(group, a3, 2, assignments={a3: assignment(0)})
    # With another protocol, it has to be a new generation.
    roundrobin = (("roundrobin", subscription("u")),)
    a4 = clients.join("a", group, group_instance_id="one", protocols=roundrobin).member_id
    clients.sync(group, a4, 3, assignments={a4: assignment(0)}, protocol_name="roundrobin")
    clients.leave(group, MemberIdentity(group_instance_id="one"))


def first_rebalances(clients: ScriptedClients) -> None:
    """What a group that is not there yet answers, and which protocol is chosen."""
    clients.join("a", "", protocols=())
    clients.join("a", "first", protocols=())
    clients.join("a", "first", protocol_type="")
    clients.join("a", "first", "nobody")
    clients.join("a", "first-of-nobody", "nobody")
    clients.join("a", "first", session_timeout_ms=1)
    clients.join("a", "first", session_timeout_ms=2_000_000)
    several = {
        name: tuple((protocol, subscription("t")) for protocol in protocols)
        for name, protocols in {
            "a": ("range", "sticky", "roundrobin"),
            "b": ("sticky", "roundrobin"),
            "c": ("roundrobin", "sticky", "else"),
        }.items()
    }
    joins = [
        (name, clients.begin_join(name, "first", protocols=several[name], **_OLD))
        for name in ("a", "b", "c")
    ]
    a, _b, _c = (answer.member_id for answer in clients.joined(*joins))
    clients.join("d", "first", protocols=(("range", b""),))
    clients.sync("first", a, 1, protocol_name="sticky")
    # Somebody is given an id, and leaves before it comes with it.
    pending = clients.join("d", "first", protocols=several["b"]).member_id
    clients.leave("first", pending)
    clients.heartbeat("first", pending, 1)
    clients.delete_offsets("first", ("t", 0))
    # The only one leaves while the group waits for more; another comes.
    leaving = clients.begin_join("a", "left", group_instance_id="one")
    clients.leave("left", MemberIdentity(group_instance_id="one"))
    clients.joined(("a", leaving))
    clients.join("b", "left", **_OLD)


def connect_workers(clients: ScriptedClients) -> None:
    """Members of another protocol type: nobody knows what they consume."""
    group = "connect"
    connect: dict[str, Any] = {
        "protocol_type": "connect",
        "protocols": (("default", b"\x00\x01"),),
        **_OLD,
    }
    a = clients.join("a", group, **connect).member_id
    names = {"protocol_type": "connect", "protocol_name": "default"}
    clients.sync(group, a, 1, assignments={a: b"\x01"}, **names)
    clients.commit(group, member_id=a, generation_id=1)
    clients.delete_offsets(group, ("t", 0))
    clients.join("b", group, **{**connect, "protocol_type": "consumer"})
    clients.leave(group, a)
    clients.delete_offsets(group, ("t", 0), ("t", 1))
    clients.fetch(group)


def simple_groups(clients: ScriptedClients) -> None:
    """Offsets of nobody."""
    group = "simple"
    clients.commit(group, offset(1), offset(2, partition=1, metadata="\u2603", leader_epoch=3))
    clients.commit(group, offset(2, "u"), member_id="m", generation_id=1)
    clients.commit("simple-of-a-member", member_id="m", generation_id=1)
    clients.commit("simple-of-a-member", member_id="m", generation_id=1, version=9)
    clients.commit(group, offset(9, metadata=None))
    clients.commit(group, offset(4, "u"), retention_time_ms=3_600_000, version=4)
    clients.fetch(group)
    clients.delete_offsets(group, ("t", 1), ("u", 7))
    clients.fetch(group)
    clients.delete_groups(group)
    clients.delete_groups(group)
    clients.fetch(group)


def transactions(clients: ScriptedClients) -> None:
    """Offsets that wait for a marker."""
    group = "transactions"
    clients.commit(group, offset(1), offset(1, partition=1))
    clients.commit(group, offset(10), offset(10, "u"), transactional_id="tx-a")
    for is_stable in (False, True):
        keys = [("t", 0), ("t", 1), ("u", 0)]
        clients.fetch(group, *keys, require_stable=is_stable)
    clients.commit(group, offset(20, partition=1), transactional_id="tx-b")
    clients.commit(group, offset(11), transactional_id="tx-a")
    clients.commit(group, offset(2))
    clients.end_transaction("tx-b", is_commit=False)
    clients.end_transaction("tx-a", is_commit=True)
    clients.fetch(group, require_stable=True)
    clients.commit(group, offset(30), transactional_id="tx-a")
    clients.commit(group, offset(40), transactional_id="tx-b")
    clients.end_transaction("tx-b", is_commit=True)
    clients.end_transaction("tx-a", is_commit=True)
    clients.fetch(group, require_stable=True)
    clients.commit("transactions-2", member_id="m", generation_id=1, transactional_id="tx-a")
    clients.end_transaction("tx-a", is_commit=False)
    a = clients.join("a", "transactions-2", **_OLD).member_id
    clients.commit("transactions-2", member_id=a, generation_id=1, transactional_id="tx-a")
    clients.commit("transactions-2", member_id=a, generation_id=7, transactional_id="tx-a")
    clients.commit("transactions-2", transactional_id="tx-a")
    clients.end_transaction("tx-a", is_commit=True)
    clients.fetch("transactions-2")
    clients.commit(group, offset(50), offset(51, "u", 1), transactional_id="tx-b")
    clients.delete_offsets(group, ("t", 1))
    clients.delete_groups(group)
    clients.fetch(group)
    clients.end_transaction("tx-b", is_commit=False)


_OLD: dict[str, Any] = {"requires_known_member_id": False}

SCRIPTS: tuple[Callable[[ScriptedClients], None], ...] = (
    rebalances,
    static_members,
    first_rebalances,
    connect_workers,
    simple_groups,
    transactions,
)
