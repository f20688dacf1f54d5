"""Sequences of requests that are put to the model and to real brokers.

A script asks a coordinator and notes each answer under a name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator_state.model.requests import MemberIdentity, SyncGroupRequest
from tests.support.clients.told import Told, assignment, offset, subscription

TOPICS = ("t", "u")
METADATA_TOO_LONG = "x" * 4_097


def rebalances(told: Told) -> None:
    """Dynamic members come and go; what each of them may ask when."""
    group = "rebalances"
    a = told.join("a", group).member_id
    told.join("a", group, a, protocol_type="connect")
    first = told.join("a", group, a)
    told.heartbeat(group, a, first.generation_id)
    told.commit(group, member_id=a, generation_id=1)
    told.sync("a", group, "nobody", 1)
    told.sync("a", group, a, 7)
    told.sync("a", group, a, 1, protocol_name="roundrobin")
    told.sync("a", group, a, 1, protocol_type="connect")
    told.sync("a", group, a, 1, assignments={a: assignment(0)}, protocol_name="range")
    told.sync("a", group, a, 1)
    told.heartbeat(group, a, 1)
    told.heartbeat(group, a, 7)
    told.heartbeat(group, "nobody", 1)
    told.commit(group, offset(1), offset(2, partition=1), member_id=a, generation_id=1)
    told.commit(group, offset(3), offset(4, "u", metadata="m", leader_epoch=5))
    told.commit(group, offset(3, "u"), member_id=a, generation_id=7)
    told.commit(group, offset(3, "u"), member_id="nobody", generation_id=1)
    told.commit(group, offset(5, metadata=METADATA_TOO_LONG), member_id=a, generation_id=1)
    # Another one comes; the first has to come again.
    b = told.join("b", group).member_id
    b_joins = told.begin_join("b", group, b)
    told.heartbeat(group, a, 1)
    told.sync("a", group, a, 1)
    told.commit(group, offset(6), member_id=a, generation_id=1)
    told.joined(("a", told.begin_join("a", group, a)), ("b", b_joins))
    b_syncs = told.coordinator.sync(
        "b",
        SyncGroupRequest(
            group_id=group,
            member_id=b,
            generation_id=2,
            protocol_type="consumer",
            protocol_name="range",
        ),
    )
    told.commit(group, offset(7), member_id=a, generation_id=2)
    told.sync("a", group, a, 2, assignments={a: assignment(0), "nobody": b"x"})
    told.coordinator.settle(b_syncs)
    told.note("sync b, whom the leader left out", b_syncs.get())
    # A follower that joins as it is is told what it knows; the leader makes a rebalance.
    told.join("b", group, b)
    a_joins = told.begin_join("a", group, a)
    told.heartbeat(group, b, 2)
    told.joined(("b", told.begin_join("b", group, b)), ("a", a_joins))
    told.sync("a", group, a, 3, assignments={a: assignment(1), b: assignment(0)})
    told.sync("b", group, b, 3)
    told.leave(group, MemberIdentity(member_id="nobody"))
    told.leave(group, MemberIdentity(member_id=a))
    told.join("b", group, b)
    told.sync("b", group, b, 4, assignments={b: assignment(0)})
    told.note("delete", told.coordinator.delete_groups([group]))
    told.note("delete", told.coordinator.delete_offsets(group, [("t", 0), ("u", 0)]))
    told.leave(group, MemberIdentity(member_id=b))
    told.heartbeat(group, b, 4)
    told.sync("b", group, b, 4)
    told.commit(group, offset(8))
    told.note("fetch", told.coordinator.fetch(group, None))
    told.note("fetch", told.coordinator.fetch(group, [("t", 0), ("u", 0), ("u", 9)]))
    told.note("delete", told.coordinator.delete_groups([group, "unknown"]))
    told.heartbeat(group, b, 4)
    told.sync("b", group, b, 4)
    told.join("b", group, b)
    told.leave(group, MemberIdentity(member_id=b))
    told.note("fetch", told.coordinator.fetch(group, [("t", 0)]))
    told.note("delete", told.coordinator.delete_offsets(group, [("t", 0)]))


def static_members(told: Told) -> None:
    """Members with an instance id come back without a rebalance; who had it before is fenced."""
    group = "static"
    old_client: dict[str, Any] = {"supports_skipping_assignment": False}
    a_joins = told.begin_join("a", group, group_instance_id="one")
    b_joins = told.begin_join("b", group, group_instance_id="two")
    a, b = (answer.member_id for answer in told.joined(("a", a_joins), ("b", b_joins)))
    told.sync("a", group, a, 1, assignments={a: assignment(0), b: assignment(1)})
    told.sync("b", group, b, 1, group_instance_id="two")
    a2 = told.join("a", group, group_instance_id="one").member_id
    told.sync("a", group, a2, 1, group_instance_id="one")
    told.sync("a", group, a, 1, group_instance_id="one")
    told.heartbeat(group, a, 1, instance_id="one")
    told.heartbeat(group, a, 1)
    told.heartbeat(group, a2, 1, instance_id="unknown")
    told.commit(group, member_id=a, generation_id=1, group_instance_id="one")
    told.commit(group, member_id=a2, generation_id=1, group_instance_id="one")
    b2 = told.join("b", group, group_instance_id="two", **old_client).member_id
    a3 = told.join("a", group, group_instance_id="one", **old_client).member_id
    told.join("a", group, a2, group_instance_id="one")
    told.leave(group, MemberIdentity(member_id=a2, group_instance_id="one"))
    told.leave(group, MemberIdentity(group_instance_id="unknown"))
    told.leave(group, MemberIdentity(group_instance_id="two"), MemberIdentity(member_id=b2))
    told.join("a", group, a3, group_instance_id="one")
    told.sync("a", group, a3, 2, assignments={a3: assignment(0)})
    # With another protocol, it has to be a new generation.
    roundrobin = (("roundrobin", subscription("u")),)
    a4 = told.join("a", group, group_instance_id="one", protocols=roundrobin).member_id
    told.sync("a", group, a4, 3, assignments={a4: assignment(0)}, protocol_name="roundrobin")
    told.leave(group, MemberIdentity(group_instance_id="one"))


def first_rebalances(told: Told) -> None:
    """What a group that is not there yet answers, and which protocol is chosen."""
    told.join("a", "", protocols=())
    told.join("a", "first", protocols=())
    told.join("a", "first", protocol_type="")
    told.join("a", "first", "nobody")
    told.join("a", "first-of-nobody", "nobody")
    told.join("a", "first", session_timeout_ms=1)
    told.join("a", "first", session_timeout_ms=2_000_000)
    several = {
        name: tuple((protocol, subscription("t")) for protocol in protocols)
        for name, protocols in {
            "a": ("range", "sticky", "roundrobin"),
            "b": ("sticky", "roundrobin"),
            "c": ("roundrobin", "sticky", "else"),
        }.items()
    }
    joins = [
        (name, told.begin_join(name, "first", protocols=several[name], **_OLD))
        for name in ("a", "b", "c")
    ]
    a, _b, _c = (answer.member_id for answer in told.joined(*joins))
    told.join("d", "first", protocols=(("range", b""),))
    told.sync("a", "first", a, 1, protocol_name="sticky")
    # Somebody is given an id, and leaves before it comes with it.
    pending = told.join("d", "first", protocols=several["b"]).member_id
    told.leave("first", MemberIdentity(member_id=pending))
    told.heartbeat("first", pending, 1)
    told.note("delete", told.coordinator.delete_offsets("first", [("t", 0)]))
    # The only one leaves while the group waits for more; another comes.
    leaving = told.begin_join("a", "left", group_instance_id="one")
    told.leave("left", MemberIdentity(group_instance_id="one"))
    told.joined(("a", leaving))
    told.join("b", "left", **_OLD)


def connect_workers(told: Told) -> None:
    """Members of another protocol type: nobody knows what they consume."""
    group = "connect"
    connect: dict[str, Any] = {
        "protocol_type": "connect",
        "protocols": (("default", b"\x00\x01"),),
        **_OLD,
    }
    a = told.join("a", group, **connect).member_id
    told.sync(
        "a",
        group,
        a,
        1,
        assignments={a: b"\x01"},
        protocol_type="connect",
        protocol_name="default",
    )
    told.commit(group, member_id=a, generation_id=1)
    told.note("delete", told.coordinator.delete_offsets(group, [("t", 0)]))
    told.join("b", group, **{**connect, "protocol_type": "consumer"})
    told.leave(group, MemberIdentity(member_id=a))
    told.note("delete", told.coordinator.delete_offsets(group, [("t", 0), ("t", 1)]))
    told.note("fetch", told.coordinator.fetch(group, None))


def simple_groups(told: Told) -> None:
    """Offsets of nobody."""
    group = "simple"
    told.commit(group, offset(1), offset(2, partition=1, metadata="\u2603", leader_epoch=3))
    told.commit(group, offset(2, "u"), member_id="m", generation_id=1)
    told.commit("simple-of-a-member", member_id="m", generation_id=1)
    told.commit("simple-of-a-member", member_id="m", generation_id=1, version=9)
    told.commit(group, offset(9, metadata=None))
    told.commit(group, offset(4, "u"), retention_time_ms=3_600_000, version=4)
    told.note("fetch", told.coordinator.fetch(group, None))
    told.note("delete", told.coordinator.delete_offsets(group, [("t", 1), ("u", 7)]))
    told.note("fetch", told.coordinator.fetch(group, None))
    told.note("delete", told.coordinator.delete_groups([group]))
    told.note("delete", told.coordinator.delete_groups([group]))
    told.note("fetch", told.coordinator.fetch(group, None))


def transactions(told: Told) -> None:
    """Offsets that wait for a marker."""
    group, coordinator = "transactions", told.coordinator
    told.commit(group, offset(1), offset(1, partition=1))
    told.commit(group, offset(10), offset(10, "u"), transactional_id="tx-a")
    for is_stable in (False, True):
        keys = [("t", 0), ("t", 1), ("u", 0)]
        told.note("fetch", coordinator.fetch(group, keys, require_stable=is_stable))
    told.commit(group, offset(20, partition=1), transactional_id="tx-b")
    told.commit(group, offset(11), transactional_id="tx-a")
    told.commit(group, offset(2))
    coordinator.end_transaction("tx-b", is_commit=False)
    coordinator.end_transaction("tx-a", is_commit=True)
    told.note("fetch", coordinator.fetch(group, None, require_stable=True))
    told.commit(group, offset(30), transactional_id="tx-a")
    told.commit(group, offset(40), transactional_id="tx-b")
    coordinator.end_transaction("tx-b", is_commit=True)
    coordinator.end_transaction("tx-a", is_commit=True)
    told.note("fetch", coordinator.fetch(group, None, require_stable=True))
    told.commit("transactions-2", member_id="m", generation_id=1, transactional_id="tx-a")
    coordinator.end_transaction("tx-a", is_commit=False)
    a = told.join("a", "transactions-2", **_OLD).member_id
    told.commit("transactions-2", member_id=a, generation_id=1, transactional_id="tx-a")
    told.commit("transactions-2", member_id=a, generation_id=7, transactional_id="tx-a")
    told.commit("transactions-2", transactional_id="tx-a")
    coordinator.end_transaction("tx-a", is_commit=True)
    told.note("fetch", coordinator.fetch("transactions-2", None))
    told.commit(group, offset(50), offset(51, "u", 1), transactional_id="tx-b")
    told.note("delete", coordinator.delete_offsets(group, [("t", 1)]))
    told.note("delete", coordinator.delete_groups([group]))
    told.note("fetch", coordinator.fetch(group, None))
    coordinator.end_transaction("tx-b", is_commit=False)


_OLD: dict[str, Any] = {"requires_known_member_id": False}

SCRIPTS: tuple[Callable[[Told], None], ...] = (
    rebalances,
    static_members,
    first_rebalances,
    connect_workers,
    simple_groups,
    transactions,
)
