"""What a coordinator of the model holds, and what its log makes others hold, in one shape."""

from __future__ import annotations

import random
from operator import attrgetter
from typing import Any

from coordinator_state.log.record_batch import read_record_batches
from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.consumer_group import LiveConsumerGroup
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.shard import MODELLED_RELEASE
from coordinator_state.model.topics import Assigned
from coordinator_state.replay.group_replay import described
from coordinator_state.replay.groups import CONSUMER, Group
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, PendingOffsets, Semantics
from coordinator_state.wire.primitives import uuid_text
from tests.support.tables.plan_tables import OFFSET_VALUES, PlanTables

State = dict[str, Any]
_NOT_OF_CONSUMER_GROUPS = (None, None, None)
"""The places that only classic groups fill."""
_MEMBER = attrgetter("member_id", "client_id", "client_host", "rebalance_timeout_ms")


def expected_state(coordinator: GroupCoordinator) -> State:
    """What is to be found by whoever loads the coordinator's log."""
    is_scala = coordinator.shard.is_scala
    with_offsets = {key.group_id for key in coordinator.offsets}
    with_offsets |= {key.group_id for keys in coordinator.pending.values() for key in keys}
    groups = {}
    for group_id, group in coordinator.shard.groups.items():
        if isinstance(group, LiveConsumerGroup):
            groups[group_id] = _live_consumer_group(group)
        elif group.durable is not None:
            groups[group_id] = _durable(group)
        elif group_id in with_offsets if is_scala else group.has_commits:
            groups[group_id] = ("Empty", "", None, None, 0, None, -1, ())
    return {
        "offsets": {key: _values(offset) for key, offset in coordinator.offsets.items()},
        "pending": _waiting(coordinator.pending),
        "groups": groups,
    }


def _durable(group: ClassicGroup) -> tuple[Any, ...]:
    assert group.durable is not None
    value = group.durable.value
    state = "Stable" if value["members"] else "Empty"
    names = ("protocolType", "protocol", "leader", "generation", "currentStateTimestamp")
    members = (
        (
            *(member[name] for name in ("memberId", "clientId", "clientHost", "rebalanceTimeout")),
            member["groupInstanceId"] or "",
            *(member[name] for name in ("sessionTimeout", "subscription", "assignment")),
        )
        for member in value["members"]
    )
    values = [value[name] for name in names]
    return (state, *values, group.durable.record_offset, tuple(sorted(members)))


def _live_consumer_group(group: LiveConsumerGroup) -> tuple[Any, ...]:
    members = (
        (
            *_MEMBER(member),
            member.group_instance_id or "",
            None if member.classic is None else member.classic.session_timeout_ms,
            tuple(sorted(member.subscribed_topics)),
            member.member_epoch,
            member.state.name,
            _partitions(member.assigned),
            _partitions(group.targets.get(member.member_id, {})),
            _partitions(member.pending_revocation),
        )
        for member in group.members.values()
    )
    epochs = (group.group_epoch, group.target_epoch)
    return (
        *(group.state.value, group.protocol_type, *epochs),
        *(*_NOT_OF_CONSUMER_GROUPS, tuple(sorted(members))),
    )


def _partitions(assigned: Assigned) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((uuid_text(topic_id), p) for topic_id, ps in assigned.items() for p in ps))


def _loaded_group(group: Group) -> tuple[Any, ...]:
    if group.group_type == CONSUMER:
        return _loaded_consumer_group(group)
    names = attrgetter("state", "protocol_type", "protocol", "leader", "generation")
    members = (
        (
            *_MEMBER(member),
            member.group_instance_id or "",
            *(member.session_timeout_ms, member.subscription_bytes, member.assignment_bytes),
        )
        for member in group.members
    )
    return (*names(group), group.state_timestamp_ms, group.record_offset, tuple(sorted(members)))


def _loaded_consumer_group(group: Group) -> tuple[Any, ...]:
    values = attrgetter("state", "protocol_type", "group_epoch", "assignment_epoch")
    state = attrgetter("session_timeout_ms", "subscribed_topics", "member_epoch", "member_state")
    members = (
        (
            *_MEMBER(member),
            member.group_instance_id or "",
            *state(member),
            *(
                tuple(sorted((a.topic_id, a.partition) for a in assigned or ()))
                for assigned in (
                    member.assignment,
                    member.target_assignment,
                    member.pending_revocation,
                )
            ),
        )
        for member in group.members
    )
    return (*values(group), *_NOT_OF_CONSUMER_GROUPS, tuple(sorted(members)))


def without_simple(state: State) -> State:
    """Compaction takes away what made a group without a record of its own and without offsets."""
    held = {key.group_id for key in state["offsets"]}
    held |= {key.group_id for _, key in state["pending"]}
    return {
        **state,
        "groups": {g: v for g, v in state["groups"].items() if v[6] != -1 or g in held},
    }


def loaded_state(log: bytes, semantics: Semantics) -> State:
    """By the reference loader, as strict as a broker of Kafka 4.

    One of Kafka 3 does not load everything that it writes: where a group was deleted and only a
    transaction has an offset of it since, it fails with "Unexpected unload of active group".
    """
    loader = ReferenceLoader(
        semantics, strict=semantics is Semantics.COORDINATOR, release=MODELLED_RELEASE
    )
    loader.load(read_record_batches(log))
    return {
        "offsets": {key: _values(offset) for key, offset in loader.offsets.items()},
        "pending": _waiting(loader.pending),
        "groups": {group_id: _loaded_group(group) for group_id, group in loader.groups.items()},
    }


def tables_state(log: bytes, end: int, semantics: Semantics, choose: random.Random) -> State:
    """By the rules of the tables, cut anywhere into micro-batches, some of them twice."""
    tables = PlanTables(semantics, MODELLED_RELEASE)
    for cut in [*sorted(choose.randint(0, end) for _ in range(3)), end]:
        how = {"compact": choose.random() < 0.5, "is_redelivered": choose.random() < 0.5}
        tables.load({0: (log, cut)}, **how)
    return {
        "offsets": {
            key: tuple(row[name] for name in OFFSET_VALUES)
            for (_, key), row in tables.offsets.items()
        },
        "pending": {
            (row["producer_id"], OffsetKey(row["group_id"], row["topic"], row["partition"])): tuple(
                row[name] for name in OFFSET_VALUES
            )
            for row in tables.pending.to_pylist()
        },
        "groups": {g: _loaded_group(described(state)) for (_, g), state in tables.groups.items()},
    }


def _values(offset: CommittedOffset) -> tuple[Any, ...]:
    return tuple(getattr(offset, name) for name in OFFSET_VALUES)


def _waiting(pending: PendingOffsets) -> dict[Any, Any]:
    return {
        (p, key): _values(offset) for p, keys in pending.items() for key, offset in keys.items()
    }
