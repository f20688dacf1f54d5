"""What simulated groups write, step by step; `property/test_model.py` has random steps."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from coordinator_state.log.record_batch import RecordBatch, read_record_batches
from coordinator_state.model.classic_group import ClassicGroup, CooperativeGroup
from coordinator_state.model.consumer_group import ConsumerGroup, MemberState
from coordinator_state.model.group import Group, Member
from coordinator_state.model.group_coordinator import GroupCoordinator, Refused
from coordinator_state.model.log import Producer
from coordinator_state.model.share_group import ShareGroup
from coordinator_state.model.topics import Topic, Topics
from coordinator_state.records.consumer_protocol import decode_assignment
from coordinator_state.records.serde import decode_key, decode_value
from coordinator_state.replay.offsets import OffsetKey, Semantics

GROUP = "g"
PLACES = [("t", partition) for partition in range(4)]
SESSION_MS, INITIAL_MS, RETENTION_MS = 10_000, 3_000, 60_000
both = pytest.mark.parametrize("semantics", list(Semantics))


class World:
    """A group of a coordinator, and the records that it has written since the last look."""

    def __init__(
        self, kind: type[Group] = ClassicGroup, semantics: Semantics = Semantics.COORDINATOR
    ) -> None:
        topics = Topics({"t": Topic(UUID(int=1), len(PLACES))})
        self.coordinator = GroupCoordinator(
            semantics, topics=topics, offsets_retention_ms=RETENTION_MS
        )
        self.coordinator.now_ms = 1_700_000_000_000
        self.group = self.another(kind)
        self._seen = 0

    def another(self, kind: type[Group]) -> Any:
        return kind(self.coordinator, GROUP, ["t"], session_timeout_ms=SESSION_MS)

    def start(self, *instance_ids: str | None) -> list[Member]:
        members = [Member("c", "/h", instance_id) for instance_id in instance_ids]
        for member in members:
            self.group.start(member)
        self.group.tick()
        return members

    def started(self, *instance_ids: str | None) -> list[Member]:
        """Members after the first rebalance."""
        members = self.start(*instance_ids)
        self.wait(2 * INITIAL_MS)
        self.written()
        return members

    def wait(self, ms: int) -> None:
        self.coordinator.now_ms += ms
        self.group.tick()

    def written(self) -> list[tuple[int, Any]]:
        """The type and value of each record."""
        records = []
        for batch in read_record_batches(b"".join(self.coordinator.log.raw)):
            assert isinstance(batch, RecordBatch)
            if batch.base_offset < self._seen or batch.is_control:
                continue
            for record in batch.records:
                record_type = decode_key(record.key or b"").record_type
                value = None
                if record.value is not None:
                    value = dict(decode_value(record_type, record.value).fields)
                records.append((record_type.id, value))
        self._seen = self.coordinator.log.next_offset
        return records

    def types(self) -> list[int]:
        """The types of the records; those of tombstones are negative."""
        return [-number if value is None else number for number, value in self.written()]


def test_a_first_rebalance_waits_for_more_members() -> None:
    world = World()
    (first,) = world.start(None)
    ((number, value),) = world.written()
    assert (number, value["generation"], value["members"]) == (2, 0, [])
    (second,) = world.start(None)
    world.wait(INITIAL_MS)
    assert (world.types(), world.group.state) == ([], "PreparingRebalance")
    world.wait(INITIAL_MS)
    ((_, value),) = world.written()
    assert (value["generation"], value["leader"]) == (1, first.member_id)
    assert (world.group.state, world.group.is_settled) == ("Stable", True)
    assert sorted(first.places + second.places) == PLACES
    for written in value["members"]:
        (assigned,) = decode_assignment(written["assignment"])["assignedPartitions"]
        member = world.group.members[written["memberId"]]
        assert [("t", partition) for partition in assigned["partitions"]] == member.places


def test_kafka_3_writes_no_group_before_its_first_generation() -> None:
    world = World(semantics=Semantics.SCALA)
    world.start(None)
    assert world.types() == []
    assert world.coordinator.groups == {}


def test_a_rebalance_waits_for_the_session_of_a_crashed_member() -> None:
    world = World()
    first, second = world.started(None, None)
    world.group.crash(first)
    (third,) = world.start(None)
    world.wait(SESSION_MS - 1)
    assert world.types() == []
    world.wait(1)
    ((_, value),) = world.written()
    assert (value["generation"], value["leader"]) == (2, second.member_id)
    assert set(world.group.members.values()) == {second, third}
    for member in (second, third):
        world.group.crash(member)
    world.wait(SESSION_MS)
    ((_, value),) = world.written()
    assert (value["generation"], value["members"], value["protocol"]) == (3, [], None)
    assert world.group.state == "Empty"


def test_partitions_are_given_back_before_a_rebalance() -> None:
    world = World()
    revoked = []
    world.group = ClassicGroup(
        world.coordinator, GROUP, ["t"], lambda member: revoked.append(list(member.places))
    )
    world.started(None)
    world.start(None)
    assert revoked == [PLACES]
    world.group.rebalance()
    world.group.tick()
    assert len(revoked) == 3
    ((_, value), *_) = world.written()[-1:]
    assert value["generation"] == 3


@pytest.mark.parametrize("kind", [ClassicGroup, ConsumerGroup])
def test_a_static_member_returns_to_its_partitions(kind: type[Group]) -> None:
    world = World(kind)
    first, second = world.started("i", "j")
    before = list(first.places)
    world.group.leave(first)
    (again,) = world.start("i")
    assert (again.places, again.epoch, world.group.state) == (before, second.epoch, "Stable")
    assert again.member_id != first.member_id
    assert set(world.types()) <= {2, 5, 7, 8, -5, -7, -8}
    assert list(world.group.members.values()) == [again, second]
    # A consumer that crashed has its instance id until its session expires.
    world.group.crash(again)
    (back,) = world.start("i")
    assert world.group.has(back) == (kind is ClassicGroup)
    world.wait(SESSION_MS)
    assert world.group.has(back)
    world.group.leave(back, for_good=True)
    world.group.leave(second, for_good=True)
    assert world.group.state == "Empty"


def test_a_partition_of_a_cooperative_group_moves_in_two_generations() -> None:
    world = World(CooperativeGroup)
    (first,) = world.started(None)
    (second,) = world.start(None)
    (_, two), (_, three) = world.written()
    assert [value["generation"] for value in (two, three)] == [2, 3]
    sizes = {member["memberId"]: len(member["assignment"]) for member in two["members"]}
    assert sizes[second.member_id] < sizes[first.member_id]
    assert len(first.places) == len(second.places) == 2


def test_a_partition_of_a_consumer_group_is_revoked_before_it_moves() -> None:
    world = World(ConsumerGroup)
    (first,) = world.start(None)
    assert world.types() == [5, 3, 7, 6, 8]
    assert (first.places, first.epoch) == (PLACES, 1)
    world.start(None)
    states = [MemberState(v["state"]) for number, v in world.written() if number == 8]
    assert states == [
        MemberState.UNRELEASED_PARTITIONS,
        MemberState.UNREVOKED_PARTITIONS,
        MemberState.STABLE,
        MemberState.STABLE,
    ]
    assert world.group.state == "Stable"
    world.group.crash(first)
    world.wait(SESSION_MS)
    assert world.types()[:4] == [-8, -7, -5, 3]


def test_the_members_of_a_share_group_share_all_partitions() -> None:
    world = World(ShareGroup)
    first, second = world.start(None, None)
    assert world.types() == [10, 11, 14] * 2
    assert first.places == second.places == PLACES
    world.group.leave(first)
    assert world.types() == [-14, -10]
    assert world.coordinator.groups == {}


@pytest.mark.parametrize(
    ("kind", "other", "types"),
    [
        (ClassicGroup, ConsumerGroup, [-2, 5, 3, 7, 6, 8]),
        (ConsumerGroup, ClassicGroup, [-6, -4, -3, 2]),
    ],
)
def test_an_empty_group_changes_the_protocol(
    kind: type[Group], other: type[Group], types: list[int]
) -> None:
    world = World(kind)
    (member,) = world.started(None)
    world.group.leave(member)
    world.written()
    world.group = world.another(other)
    world.start(None)
    assert world.types() == types
    assert world.coordinator.groups == {GROUP: world.group}


# --- offsets


@pytest.mark.parametrize("kind", [ClassicGroup, ConsumerGroup])
def test_members_commit_and_others_only_without_members(kind: type[Group]) -> None:
    world = World(kind)
    assert world.group.commit({("t", 0): 1})
    assert world.coordinator.groups[GROUP].is_empty
    (member,) = world.start(None)
    assert world.group.commit({("t", 0): 2}, member) == (kind is ConsumerGroup)
    world.wait(INITIAL_MS)
    assert world.group.commit({("t", 0): 3}, member)
    assert not world.group.commit({("t", 0): 4})
    assert not world.group.commit({("t", 0): 5}, Member("c", "/h", member_id="unknown", epoch=1))
    assert world.coordinator.offsets[OffsetKey(GROUP, "t", 0)].committed_offset == 3


@both
def test_only_groups_without_members_are_deleted(semantics: Semantics) -> None:
    world = World(semantics=semantics)
    with pytest.raises(Refused, match="GROUP_ID_NOT_FOUND"):
        world.coordinator.delete_group(GROUP)
    (member,) = world.started(None)
    with pytest.raises(Refused, match="NON_EMPTY_GROUP"):
        world.coordinator.delete_group(GROUP)
    for producer_id in (7, 8):
        world.group.commit({("t", 0): 1}, member, Producer(producer_id, 0))
    world.group.leave(member)
    world.written()
    world.coordinator.delete_group(GROUP)
    # Kafka 3 writes no tombstone for pending offsets, so a marker brings them back.
    is_scala = semantics is Semantics.SCALA
    assert world.types() == ([-2] if is_scala else [-1, -2])
    assert bool(world.coordinator.pending) == is_scala


@pytest.mark.parametrize(
    ("kind", "semantics"),
    [
        (ClassicGroup, Semantics.COORDINATOR),
        (ClassicGroup, Semantics.SCALA),
        (ConsumerGroup, Semantics.COORDINATOR),
    ],
)
def test_offsets_expire_after_the_last_member(kind: type[Group], semantics: Semantics) -> None:
    world = World(kind, semantics)
    (member,) = world.started(None)
    world.group.commit({("t", 0): 1, ("u", 0): 1}, member)
    world.wait(RETENTION_MS)
    world.coordinator.expire_offsets()
    assert set(world.coordinator.offsets) == {OffsetKey(GROUP, "t", 0)}
    world.group.leave(member)
    if kind is ClassicGroup:
        # From when the last member left; in a consumer group from the commit on.
        world.wait(RETENTION_MS - 1)
        world.coordinator.expire_offsets()
        assert len(world.coordinator.offsets) == 1
        world.wait(1)
    world.coordinator.expire_offsets()
    assert world.coordinator.offsets == {}
    assert world.coordinator.groups == {}
    assert world.types()[-1] == (-2 if kind is ClassicGroup else -3)


@both
def test_a_simple_group_expires_with_its_last_offset(semantics: Semantics) -> None:
    world = World(semantics=semantics)
    world.group.commit({("t", 0): 1})
    world.group.commit({("t", 1): 1}, producer=Producer(7, 0))
    world.wait(RETENTION_MS)
    world.coordinator.expire_offsets()
    assert len(world.coordinator.groups) == 1
    world.coordinator.end_transaction(Producer(7, 0), is_commit=False)
    world.coordinator.expire_offsets()
    assert world.coordinator.groups == {}
    assert (-2 in world.types()) == (semantics is Semantics.COORDINATOR)
