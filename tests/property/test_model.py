"""The state of a coordinator equals the state that its log loads to, whole and compacted.

`test_apply_plan.py` compares the tables with the loader. The shard oracle compares consumer groups
(KIP-848) of the model and of the loader with Kafka's.
"""

from __future__ import annotations

import random
from dataclasses import replace
from operator import attrgetter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from coordinator_state.log.record_batch import RecordBatch, read_record_batches
from coordinator_state.model.classic_group import ClassicGroup, ClassicState
from coordinator_state.model.cleaner import clean
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.log import Producer
from coordinator_state.model.requests import (
    ErrorCode,
    JoinGroupRequest,
    JoinGroupResponse,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetToCommit,
    Reply,
    SyncGroupRequest,
)
from coordinator_state.model.shard import MODELLED_RELEASE, CoordinatorConfig
from coordinator_state.replay.classic_groups import classic_group
from coordinator_state.replay.groups import NO_RECORD_OFFSET, Group, simple_group
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, PendingOffsets, Semantics
from tests.support.clients.scripted_clients import assignment, subscription
from tests.support.tables.plan_tables import OFFSET_VALUES

GROUPS = ("g", "h")
TOPICS = ("t", "u")
RETENTION_MS = 60_000
CLEANED_TIMES = 3

groups = st.sampled_from(GROUPS)
producers = st.integers(1, 2)
partitions = st.tuples(st.sampled_from(TOPICS), st.integers(0, 1))


State = dict[str, Any]


class CoordinatorMachine(RuleBasedStateMachine):
    """A coordinator to which everything happens; at the end its log is held against it."""

    semantics = Semantics.COORDINATOR

    @initialize(seed=st.integers(0, 1 << 32))
    def start(self, seed: int) -> None:
        self.choose = random.Random(seed)
        config = CoordinatorConfig(offsets_retention_ms=RETENTION_MS, group_max_size=3)
        self.coordinator = GroupCoordinator(self.semantics, config=config, seed=seed)
        self.coordinator.advance(1_700_000_000_000)
        self.member_ids: dict[str, list[str]] = {group_id: [] for group_id in GROUPS}
        if self.choose.random() < 0.7:
            self.rebalance(GROUPS[0], self.choose.randint(1, 2), TOPICS[0])

    # --- members

    @rule(
        group_id=groups,
        instance_id=st.sampled_from([None, None, "i1"]),
        protocols=st.sampled_from(["r", "s", "rs", "sr"]),
        topic=st.sampled_from(TOPICS),
        requires_known_member_id=st.booleans(),
        data=st.data(),
    )
    def join(
        self,
        group_id: str,
        instance_id: str | None,
        protocols: str,
        topic: str,
        requires_known_member_id: bool,
        data: st.DataObject,
    ) -> None:
        member_id = "" if instance_id else self._member_id(group_id, data)
        self._join(group_id, member_id, topic, instance_id, protocols, requires_known_member_id)
        self._hear()

    @rule(group_id=groups, leaves_out=st.booleans(), data=st.data())
    def sync(self, group_id: str, leaves_out: bool, data: st.DataObject) -> None:
        group = self._group(group_id)
        member_id = self._member_id(group_id, data)
        everyone = list(group.members) if group is not None else [member_id]
        assigned = everyone[1:] if leaves_out else [*everyone, "nobody"]
        self._sync(group_id, member_id, assigned)

    @rule(group_id=groups, joining=st.integers(0, 2), topic=st.sampled_from(TOPICS))
    def rebalance(self, group_id: str, joining: int, topic: str) -> None:
        """Whoever is there joins again, and some more; the leader assigns; all are told."""
        known = self._members(group_id)
        group = self._group(group_id)
        instances = (
            {m: member.group_instance_id for m, member in group.members.items()} if group else {}
        )
        replies = [
            self._join(group_id, member_id, topic, instances.get(member_id))
            for member_id in known + [""] * joining
        ]
        self.wait(3_000)
        if not any(reply.is_done for reply in replies):
            self.wait(20_000)
        self.everybody_syncs(group_id)

    @rule(group_id=groups)
    def everybody_syncs(self, group_id: str) -> None:
        for member_id in self._members(group_id):
            self._sync(group_id, member_id, [member_id])

    def _join(
        self,
        group_id: str,
        member_id: str,
        topic: str,
        instance_id: str | None,
        protocols: str = "rs",
        requires_known_member_id: bool = False,
    ) -> Reply[JoinGroupResponse]:
        return self.coordinator.join_group(
            JoinGroupRequest(
                group_id=group_id,
                member_id=member_id,
                group_instance_id=instance_id,
                protocols=tuple((name, subscription(topic)) for name in protocols),
                session_timeout_ms=10_000,
                rebalance_timeout_ms=20_000,
                requires_known_member_id=requires_known_member_id,
            )
        )

    def _sync(self, group_id: str, member_id: str, assigned: list[str]) -> None:
        self.coordinator.sync_group(
            SyncGroupRequest(
                group_id=group_id,
                member_id=member_id,
                generation_id=self._generation(group_id),
                assignments={m: assignment(i) for i, m in enumerate(assigned)},
            )
        )

    @rule(group_id=groups, data=st.data())
    def heartbeat(self, group_id: str, data: st.DataObject) -> None:
        member_id = self._member_id(group_id, data)
        self.coordinator.heartbeat(group_id, member_id, self._generation(group_id))

    @rule(group_id=groups, data=st.data())
    def leave(self, group_id: str, data: st.DataObject) -> None:
        identity = data.draw(
            st.sampled_from(
                [
                    MemberIdentity(group_instance_id="i1"),
                    MemberIdentity(member_id=self._member_id(group_id, data)),
                ]
            )
        )
        self.coordinator.leave_group(group_id, [identity])
        self._hear()

    # --- offsets

    @rule(
        group_id=groups,
        keys=st.lists(partitions, min_size=1, max_size=4, unique=True),
        offset=st.integers(0, 100),
        is_member=st.booleans(),
        retention_time_ms=st.sampled_from([-1, -1, -1, 5_000]),
        producer=st.none() | producers,
        data=st.data(),
    )
    def commit(
        self,
        group_id: str,
        keys: list[tuple[str, int]],
        offset: int,
        is_member: bool,
        retention_time_ms: int,
        producer: int | None,
        data: st.DataObject,
    ) -> None:
        member_id = self._member_id(group_id, data) if is_member else ""
        request = OffsetCommitRequest(
            group_id=group_id,
            offsets=[
                OffsetToCommit(
                    topic=topic,
                    partition=partition,
                    committed_offset=offset,
                    leader_epoch=offset % 3 - 1,
                    metadata="m" * (offset % 2),
                )
                for topic, partition in keys
            ],
            member_id=member_id,
            generation_id=self._generation(group_id) if is_member else -1,
            retention_time_ms=-1 if producer else retention_time_ms,
        )
        if producer is None:
            self.coordinator.commit_offsets(request)
        elif self._survives_refusal(producer, group_id, keys):
            self.coordinator.commit_offsets(request, Producer(producer, 0))

    @rule(producer=producers, is_commit=st.booleans())
    def end_transaction(self, producer: int, is_commit: bool) -> None:
        self.coordinator.end_transaction(Producer(producer, 1), is_commit=is_commit)

    @rule(group_id=groups, keys=st.lists(partitions, min_size=1, max_size=2, unique=True))
    def delete_offsets(self, group_id: str, keys: list[tuple[str, int]]) -> None:
        if self._survives_deletion(group_id):
            self.coordinator.delete_offsets(group_id, keys)

    @rule(group_id=groups)
    def delete_group(self, group_id: str) -> None:
        if self._survives_deletion(group_id):
            self.coordinator.delete_groups([group_id])

    @rule()
    def expire(self) -> None:
        if self.semantics is Semantics.COORDINATOR or self._takes_appends:
            self.coordinator.expire_offsets()

    def _survives_deletion(self, group_id: str) -> bool:
        """Kafka 3 forgets more than its log says.

        What a transaction wrote comes back with a load, and so does what it could write no
        tombstone of.
        """
        waiting = any(
            key.group_id == group_id for keys in self.coordinator.pending.values() for key in keys
        )
        return self.semantics is Semantics.COORDINATOR or (not waiting and self._takes_appends)

    def _survives_refusal(self, producer: int, group_id: str, keys: list[tuple[str, int]]) -> bool:
        """Where an append is refused, Kafka 3 forgets what the producer committed before.

        It is in the log all the same.
        """
        waiting = self.coordinator.pending.get(producer, {})
        is_there = any(OffsetKey(group_id, *key) in waiting for key in keys)
        return self.semantics is Semantics.COORDINATOR or self._takes_appends or not is_there

    # --- the world

    @rule(ms=st.sampled_from([1, 3_000, 11_000, 21_000, RETENTION_MS]))
    def wait(self, ms: int) -> None:
        self.coordinator.advance(self.coordinator.shard.now_ms + ms)
        self._hear()

    @rule(refusal=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]))
    def refuse_appends(self, refusal: ErrorCode) -> None:
        self.coordinator.log.refusal = refusal

    @property
    def _takes_appends(self) -> bool:
        return self.coordinator.log.refusal is ErrorCode.NONE

    def _group(self, group_id: str) -> ClassicGroup | None:
        group = self.coordinator.groups.get(group_id)
        assert group is None or isinstance(group, ClassicGroup)
        return group

    def _members(self, group_id: str) -> list[str]:
        """The members, and those that have an id and did not come with it yet."""
        group = self._group(group_id)
        return [] if group is None else [*group.members, *sorted(group.pending_members)]

    def _generation(self, group_id: str) -> int:
        group = self._group(group_id)
        return 0 if group is None else group.generation_id

    def _member_id(self, group_id: str, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(["", *self.member_ids[group_id]]))

    def _hear(self) -> None:
        for group_id in GROUPS:
            known = self.member_ids[group_id]
            new = [m for m in self._members(group_id) if m not in known]
            # A few of those that are gone, too.
            self.member_ids[group_id] = [*known, *new][-4:]

    # --- the end

    def teardown(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        expected = expected_state(self.coordinator)
        for group_id in self.coordinator.groups:
            _check_stored(self._group(group_id))
        log = b"".join(self.coordinator.log.raw)
        end = self.coordinator.log.next_offset
        assert loaded_state(log, self.semantics) == expected
        cleaned_batches = self.coordinator.log.batches()
        now_ms = self.coordinator.shard.now_ms
        for _ in range(CLEANED_TIMES):
            raw = clean(
                cleaned_batches,
                upper_bound=self.choose.randint(0, end),
                now_ms=now_ms,
                delete_retention_ms=1,
                producer_id_expiration_ms=self.choose.choice([0, 1 << 60]),
            )
            now_ms += 2
            cleaned = b"".join(raw)
            cleaned_batches = [
                b for b in read_record_batches(cleaned) if isinstance(b, RecordBatch)
            ]
            state = loaded_state(cleaned, self.semantics)
            assert without_simple(state) == without_simple(expected)


class ScalaMachine(CoordinatorMachine):
    """The same with the coordinator of Kafka 3."""

    semantics = Semantics.SCALA


SETTINGS = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestCoordinator = CoordinatorMachine.TestCase
TestCoordinator.settings = SETTINGS
TestScala = ScalaMachine.TestCase
TestScala.settings = SETTINGS


def _check_stored(group: ClassicGroup | None) -> None:
    """A Stable group is in the log as it is in memory."""
    if group is not None and group.state is ClassicState.STABLE:
        assert group.durable is not None
        live = group.metadata_value({m.member_id: m.assignment for m in group.members.values()})
        stored = dict(group.durable.value)
        for value in (live, stored):
            value.pop("currentStateTimestamp")
        assert stored == live


# --- states


def expected_state(coordinator: GroupCoordinator) -> State:
    """The state that a loader of the coordinator's log must have."""
    is_scala = coordinator.shard.is_scala
    with_offsets = {key.group_id for key in coordinator.offsets}
    with_offsets |= {key.group_id for keys in coordinator.pending.values() for key in keys}
    groups = {}
    for group_id, group in coordinator.shard.groups.items():
        assert isinstance(group, ClassicGroup)
        if group.durable is not None:
            value, record_offset = dict(group.durable.value), group.durable.record_offset
            groups[group_id] = _in_order(classic_group(group_id, value, record_offset))
        elif group_id in with_offsets if is_scala else group.has_commits:
            groups[group_id] = simple_group(group_id)
    return {
        "offsets": {key: _values(offset) for key, offset in coordinator.offsets.items()},
        "pending": _waiting(coordinator.pending),
        "groups": groups,
    }


def without_simple(state: State) -> State:
    """Compaction takes away what made a group without a record of its own and without offsets."""
    held = {key.group_id for key in state["offsets"]}
    held |= {key.group_id for _, key in state["pending"]}
    return {
        **state,
        "groups": {
            group_id: group
            for group_id, group in state["groups"].items()
            if group.record_offset != NO_RECORD_OFFSET or group_id in held
        },
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
        "groups": {group_id: _in_order(group) for group_id, group in loader.groups.items()},
    }


def _in_order(group: Group) -> Group:
    """The group with its members in a fixed order; only a load warns of records."""
    members = tuple(sorted(group.members, key=attrgetter("member_id")))
    return replace(group, members=members, replay_warning=None)


def _values(offset: CommittedOffset) -> tuple[Any, ...]:
    return tuple(getattr(offset, name) for name in OFFSET_VALUES)


def _waiting(pending: PendingOffsets) -> dict[Any, Any]:
    return {
        (p, key): _values(offset) for p, keys in pending.items() for key, offset in keys.items()
    }
