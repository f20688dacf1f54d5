"""What a coordinator did against what its log says: whole, compacted, cut into micro-batches."""

from __future__ import annotations

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from coordinator_state.log.record_batch import RecordBatch, read_record_batches
from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.classic_states import ClassicState
from coordinator_state.model.cleaner import clean
from coordinator_state.model.consumer_group import LiveConsumerGroup
from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.log import Producer
from coordinator_state.model.requests import (
    JoinGroupRequest,
    JoinGroupResponse,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetToCommit,
    Reply,
    SyncGroupRequest,
)
from coordinator_state.model.shard import CoordinatorConfig
from coordinator_state.replay.offsets import OffsetKey, Semantics
from tests.support.clients.consumer_rules import GROUPS, ConsumerRules, groups
from tests.support.clients.consumer_rules import TOPICS as TOPICS_OF_CLUSTER
from tests.support.clients.model_states import (
    expected_state,
    loaded_state,
    tables_state,
    without_simple,
)
from tests.support.clients.scripted_clients import assignment, subscription

TOPICS = ("t", "u")
RETENTION_MS = 60_000
CLEANED_TIMES = 3

producers = st.integers(1, 2)
partitions = st.tuples(st.sampled_from(TOPICS), st.integers(0, 1))


class CoordinatorMachine(ConsumerRules):
    """A coordinator to which everything happens; at the end its log is held against it."""

    semantics = Semantics.COORDINATOR

    @initialize(seed=st.integers(0, 1 << 32))
    def start(self, seed: int) -> None:
        self.choose = random.Random(seed)
        config = CoordinatorConfig(offsets_retention_ms=RETENTION_MS, group_max_size=3)
        self.coordinator = GroupCoordinator(
            self.semantics, config=config, topics=TOPICS_OF_CLUSTER, seed=seed
        )
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
        member_id = self._member_id(group_id, data)
        if instance_id or self._gives_way(group_id):
            member_id = ""
        self.coordinator.join_group(
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
        self._hear()

    @rule(group_id=groups, leaves_out=st.booleans(), data=st.data())
    def sync(self, group_id: str, leaves_out: bool, data: st.DataObject) -> None:
        group = self.coordinator.groups.get(group_id)
        member_id = self._member_id(group_id, data)
        everyone = list(group.members) if group is not None else [member_id]
        assigned = everyone[1:] if leaves_out else [*everyone, "nobody"]
        self._sync(group_id, member_id, assigned)

    @rule(group_id=groups, joining=st.integers(0, 2), topic=st.sampled_from(TOPICS))
    def rebalance(self, group_id: str, joining: int, topic: str) -> None:
        """Whoever is there joins again, and some more; the leader assigns; all are told."""
        known = self._classic_members(group_id)
        replies = [self._join(group_id, member_id, topic) for member_id in known + [""] * joining]
        self.wait(3_000)
        if not any(reply.is_done for reply in replies):
            self.wait(20_000)
        self.everybody_syncs(group_id)

    @rule(group_id=groups)
    def everybody_syncs(self, group_id: str) -> None:
        for member_id in self._classic_members(group_id):
            self._sync(group_id, member_id, [member_id])

    def _join(self, group_id: str, member_id: str, topic: str) -> Reply[JoinGroupResponse]:
        group = self.coordinator.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        return self.coordinator.join_group(
            JoinGroupRequest(
                group_id=group_id,
                member_id=member_id,
                group_instance_id=None if member is None else member.group_instance_id,
                protocols=(("r", subscription(topic)), ("s", subscription(topic))),
                session_timeout_ms=10_000,
                rebalance_timeout_ms=20_000,
                requires_known_member_id=False,
            )
        )

    def _sync(self, group_id: str, member_id: str, assigned: list[str]) -> None:
        self.coordinator.sync_group(
            SyncGroupRequest(
                group_id=group_id,
                member_id=member_id,
                generation_id=self._generation(group_id, member_id),
                assignments={m: assignment(i) for i, m in enumerate(assigned)},
            )
        )

    @rule(group_id=groups, data=st.data())
    def heartbeat(self, group_id: str, data: st.DataObject) -> None:
        member_id = self._member_id(group_id, data)
        self.coordinator.heartbeat(group_id, member_id, self._generation(group_id, member_id))

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
            generation_id=self._generation(group_id, member_id) if is_member else -1,
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

    def _classic_members(self, group_id: str) -> list[str]:
        """Members that speak the classic protocol, and those that were to come."""
        group = self.coordinator.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return [*group.members, *sorted(group.pending_members)]
        members = [] if group is None else group.members.values()
        return [member.member_id for member in members if member.classic is not None]

    def _gives_way(self, group_id: str) -> bool:
        """Whether it is a consumer group that nobody is in.

        Who joins it with an id of before has Kafka 4 forget it, and write nothing.
        """
        group = self.coordinator.groups.get(group_id)
        return isinstance(group, LiveConsumerGroup) and group.is_empty

    def _generation(self, group_id: str, member_id: str) -> int:
        group = self.coordinator.groups.get(group_id)
        if isinstance(group, LiveConsumerGroup):
            member = group.members.get(member_id)
            return 0 if member is None else member.member_epoch
        return 0 if group is None else group.generation_id

    def _member_id(self, group_id: str, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(["", *self.member_ids[group_id]]))

    def _hear(self) -> None:
        for group_id in GROUPS:
            known = self.member_ids[group_id]
            new = [m for m in self._classic_members(group_id) if m not in known]
            # A few of those that are gone, too.
            self.member_ids[group_id] = [*known, *new][-4:]

    # --- the end

    def teardown(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        expected = expected_state(self.coordinator)
        for group in self.coordinator.groups.values():
            if isinstance(group, ClassicGroup):
                _check_stored(group)
        log = b"".join(self.coordinator.log.raw)
        end = self.coordinator.log.next_offset
        assert loaded_state(log, self.semantics) == expected
        # `test_apply_plan.py` holds the tables to the loader: one of the logs is enough here.
        loaded_to_tables = self.choose.randint(0, CLEANED_TIMES)
        if loaded_to_tables == 0:
            assert tables_state(log, end, self.semantics, self.choose) == expected
        cleaned_batches = self.coordinator.log.batches()
        now_ms = self.coordinator.shard.now_ms
        for cleaning in range(1, CLEANED_TIMES + 1):
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
            if cleaning == loaded_to_tables:
                state = tables_state(cleaned, end, self.semantics, self.choose)
                assert without_simple(state) == without_simple(expected)


class ScalaMachine(CoordinatorMachine):
    """The same with the coordinator of Kafka 3."""

    semantics = Semantics.SCALA


SETTINGS = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestCoordinator = CoordinatorMachine.TestCase
TestCoordinator.settings = SETTINGS
TestScala = ScalaMachine.TestCase
TestScala.settings = SETTINGS


def _check_stored(group: ClassicGroup) -> None:
    """A Stable group is in the log as it is in memory."""
    if group.state is ClassicState.STABLE:
        assert group.durable is not None
        live = group.metadata_value({m.member_id: m.assignment for m in group.members.values()})
        stored = dict(group.durable.value)
        for value in (live, stored):
            value.pop("currentStateTimestamp")
        assert stored == live
