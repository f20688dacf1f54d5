"""The reference loader, from record batches to what a coordinator answers.

Tests that name one of Kafka's follow the Scala GroupMetadataManagerTest of 3.9 (folder
core/src/test/scala/unit/kafka/coordinator/group) and, where they say so, CoordinatorLoaderImplTest
of 4.2. Worked results are those of `GroupCoordinatorShard` at 4.2.0. `test_offsets.py` has the
rules of transactions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from crc32c import crc32c

from coordinator_state.errors import ReplayError
from coordinator_state.log.record_batch import read_record_batches
from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key
from coordinator_state.replay.groups import CLASSIC, CONSUMER, EMPTY, STABLE, simple_group
from coordinator_state.replay.loader import LoadWarning, ReferenceLoader
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import NEWEST_RELEASE, Release
from tests.support.logs.logs import group_value, offset_key, offset_value

GROUP = "foo"
NOW_MS = 1_700_000_000_000

COMMITTED = {("foo", 0): 23, ("foo", 1): 455, ("bar", 0): 8992}
OTHERS = {("foo", 2): 231, ("foo", 3): 4551, ("bar", 1): 89921}

COMMIT, ABORT = 1, 0

COORDINATOR, SCALA = Semantics.COORDINATOR, Semantics.SCALA
both = pytest.mark.parametrize("semantics", list(Semantics))

Partition = tuple[str, int]
KeyAndValue = tuple[bytes | None, bytes | None]


def commits(
    offsets: Mapping[Partition, int | None],
    *,
    group_id: str = GROUP,
    version: int = 3,
    record_type: int = 1,
    **fields: Any,
) -> list[KeyAndValue]:
    """Offset commits of a group; None is a tombstone."""
    return [
        (
            offset_key(group_id, topic, partition, record_type),
            None if committed is None else offset_value(committed, version, **fields),
        )
        for (topic, partition), committed in offsets.items()
    ]


def group_record(
    *member_ids: str, group_id: str = GROUP, version: int = 3, generation: int = 935
) -> KeyAndValue:
    """A GroupMetadata record: Stable with members, Empty without; every member is static."""
    value = group_value(
        member_ids,
        generation=generation,
        version=version,
        instance_id="bar" if version >= 3 else None,
    )
    return group_key(group_id), value


def group_key(group_id: str = GROUP) -> bytes:
    return encode_key(RECORD_TYPES[2], {"group": group_id})


@dataclass
class Log:
    """Record batches one behind the other; methods that append give the offset they began at."""

    next_offset: int = 0
    raw: bytearray = field(default_factory=bytearray)

    def append(self, *records: KeyAndValue, producer_id: int = -1, **batch: Any) -> int:
        base_offset = self.next_offset
        self.raw += write_record_batch(
            base_offset,
            [(delta, NOW_MS, key, value) for delta, (key, value) in enumerate(records)],
            producer_id=producer_id,
            producer_epoch=-1 if producer_id == -1 else 2,
            **batch,
        )
        self.next_offset += len(records)
        return base_offset

    def transactional(self, producer_id: int, *records: KeyAndValue) -> int:
        return self.append(*records, producer_id=producer_id, is_transactional=True)

    def marker(self, producer_id: int, control_type: int = COMMIT, *, epoch: int = 2) -> int:
        self.raw += write_control_batch(self.next_offset, producer_id, epoch, control_type)
        self.next_offset += 1
        return self.next_offset - 1

    def control(self, *records: KeyAndValue) -> int:
        """A control batch of producer 1000 with any records at all."""
        return self.append(*records, producer_id=1000, is_transactional=True, is_control=True)

    def load(
        self,
        semantics: Semantics = COORDINATOR,
        *,
        strict: bool = True,
        release: Release = NEWEST_RELEASE,
    ) -> ReferenceLoader:
        loader = ReferenceLoader(semantics, strict=strict, release=release)
        loader.load(read_record_batches(bytes(self.raw)))
        return loader


def committed(loader: ReferenceLoader, group_id: str = GROUP) -> dict[Partition, int]:
    """What OffsetFetch answers for the group."""
    return {
        (key.topic, key.partition): value.committed_offset
        for key, value in loader.offset_fetch(group_id).items()
    }


def waiting(loader: ReferenceLoader) -> dict[int, dict[Partition, int]]:
    return {
        producer_id: {(k.topic, k.partition): v.committed_offset for k, v in records.items()}
        for producer_id, records in loader.pending.items()
    }


Step = Callable[[Log], object]
"""Appends to a log."""

Stored = dict[Partition, tuple[int, int, int | None]]
"""By topic and partition: the committed offset, its record offset and its producer id."""

V_4_0, V_4_1, *_ = Release
FOO_0, FOO_1, BAR_0 = ("foo", 0), ("foo", 1), ("bar", 0)
PENDING = {("foo", 3): 2312, ("foo", 4): 45512, ("bar", 2): 899212}
GROUP_TOMBSTONE: KeyAndValue = (group_key(), None)


def plain(*records: KeyAndValue) -> Step:
    return lambda log: log.append(*records)


def transactional(producer_id: int, *records: KeyAndValue) -> Step:
    return lambda log: log.transactional(producer_id, *records)


def marker(producer_id: int, control_type: int = COMMIT, *, epoch: int = 2) -> Step:
    return lambda log: log.marker(producer_id, control_type, epoch=epoch)


def empty_control_batch(log: Log) -> None:
    """An empty batch: the cleaner removed the marker in it."""
    log.control()
    log.next_offset += 1


def stored(
    offsets: Mapping[Partition, int], first_record_offset: int, producer_id: int | None = None
) -> Stored:
    """Offsets that a batch committed."""
    return {
        partition: (offset, record_offset, producer_id)
        for record_offset, (partition, offset) in enumerate(offsets.items(), first_record_offset)
    }


@dataclass(frozen=True, kw_only=True)
class Case:
    """A log of one group, and the state after its load; the group is simple unless it has fields.

    A coordinator answers for the offsets of a group that it has.
    """

    steps: list[Step]
    offsets: Stored = field(default_factory=dict)
    pending: dict[int, dict[Partition, int]] = field(default_factory=dict)
    group: dict[str, Any] | None = None
    has_group: Collection[Semantics] = tuple(Semantics)
    expires: dict[Partition, int] = field(default_factory=dict)
    warnings: dict[int, str] = field(default_factory=dict)


STABLE_GROUP = {"state": STABLE, "generation": 935, "protocol": "range", "leader": "m"}
EMPTY_GROUP = {
    **{"state": EMPTY, "generation": 15, "protocol_type": "consumer"},
    **{"protocol": None, "leader": None, "record_offset": 3},
}
CASES = {
    "testLoadOffsetsWithoutGroup": Case(
        steps=[plain(*commits(COMMITTED))], offsets=stored(COMMITTED, 0)
    ),
    "testDoNotLoadAbortedTransactionalOffsetCommits: a commit makes its group at once": Case(
        steps=[transactional(1000, *commits(COMMITTED)), marker(1000, ABORT)],
        has_group={COORDINATOR},
    ),
    "testLoadWithCommittedAndAbortedAndPendingTransactionalOffsetCommits": Case(
        steps=[
            transactional(1000, *commits(COMMITTED)),
            marker(1000, epoch=3),
            transactional(1000, *commits(OTHERS)),
            marker(1000, ABORT),
            transactional(1000, *commits(PENDING)),
        ],
        offsets=stored(COMMITTED, 0, 1000),
        pending={1000: PENDING},
    ),
    "testLoadOffsetsWithTombstones": Case(
        steps=[plain(*commits(COMMITTED), *commits({FOO_1: None}))],
        offsets={FOO_0: (23, 0, None), BAR_0: (8992, 2, None)},
    ),
    "testLoadGroupWithTombstone": Case(
        steps=[plain(group_record("98098230493"), GROUP_TOMBSTONE)], has_group=()
    ),
    "testOffsetWriteAfterGroupRemoved": Case(
        steps=[plain(group_record("98098230493"), GROUP_TOMBSTONE, *commits(COMMITTED))],
        offsets=stored(COMMITTED, 2),
    ),
    "testLoadEmptyGroupWithOffsets": Case(
        steps=[plain(*commits(COMMITTED), group_record(generation=15))],
        offsets=stored(COMMITTED, 0),
        group=EMPTY_GROUP,
    ),
    "testLoadOffsetsAndGroup": Case(
        steps=[plain(*commits(COMMITTED), group_record("m"))],
        offsets=stored(COMMITTED, 0),
        group=STABLE_GROUP,
    ),
    "testLoadOffsetFromOldCommit: value v1 of Kafka 1.1, group value v1": Case(
        steps=[
            plain(
                *commits(COMMITTED, version=1, expireTimestamp=NOW_MS + 100),
                group_record("m", version=1),
            )
        ],
        offsets=stored(COMMITTED, 0),
        group=STABLE_GROUP | {"state_timestamp_ms": None},
        expires=dict.fromkeys(COMMITTED, NOW_MS + 100),
    ),
    "testLoadOffsetWithExplicitRetention: v1 among newer values": Case(
        steps=[
            plain(
                *commits({FOO_0: 23}, version=1, expireTimestamp=NOW_MS + 100),
                *commits({FOO_1: 455}, version=1),
                *commits({BAR_0: 8992}),
            )
        ],
        offsets=stored(COMMITTED, 0),
        expires={FOO_0: NOW_MS + 100},
    ),
    "testLoadOffsetsWithEmptyControlBatch": Case(
        steps=[
            transactional(1000, *commits({("foo", 7): 1})),
            empty_control_batch,
            plain(*commits(COMMITTED)),
        ],
        offsets=stored(COMMITTED, 2),
        pending={1000: {("foo", 7): 1}},
    ),
    "testLoadGroupAndOffsetsWithCorruptedLog: nothing where something should be": Case(
        steps=[], has_group=()
    ),
    "testLoadGroupsAndOffsetsWillIgnoreUnknownMessage": Case(
        steps=[
            plain(
                *commits(COMMITTED),
                (b"\x7f\xffgarbage", b"garbage"),
                (b"\xff\xff", None),
                group_record("m"),
            )
        ],
        offsets=stored(COMMITTED, 0),
        group=STABLE_GROUP,
        warnings={3: "unknown record type 32767", 4: "unknown record type -1"},
    ),
    "worked result: a simple group without offsets left": Case(
        steps=[plain(*commits({FOO_0: 1}), *commits({FOO_0: None}))], has_group={COORDINATOR}
    ),
    "KAFKA-4704: under scala, surviving offsets keep a removed group alive": Case(
        steps=[plain(*commits({FOO_0: 1}), group_record("m"), GROUP_TOMBSTONE)],
        offsets=stored({FOO_0: 1}, 0),
        has_group={SCALA},
    ),
    "worked result: offsets of a removed group show again with its next commit": Case(
        steps=[plain(*commits({FOO_0: 1}), GROUP_TOMBSTONE, *commits({FOO_1: 2}))],
        offsets={FOO_0: (1, 0, None), FOO_1: (2, 2, None)},
    ),
    "a control record key of a later version ends its transaction": Case(
        steps=[
            transactional(1000, *commits({FOO_0: 1})),
            lambda log: log.control((b"\x00\x09\x00\x01and more", b"")),
        ],
        offsets=stored({FOO_0: 1}, 0, 1000),
    ),
}


@both
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_load(semantics: Semantics, case: Case) -> None:
    log = Log()
    for append in case.steps:
        append(log)
    loader = log.load(semantics)

    assert case.offsets == {
        (key.topic, key.partition): (value.committed_offset, value.record_offset, value.producer_id)
        for key, value in loader.offsets.items()
    }
    assert waiting(loader) == case.pending
    assert case.expires == {
        (key.topic, key.partition): value.expire_timestamp_ms
        for key, value in loader.offsets.items()
        if value.expire_timestamp_ms is not None
    }
    assert {w.record_offset: w.reason for w in loader.warnings} == case.warnings
    answered = {key: value for key, (value, *_) in case.offsets.items()}
    if semantics not in case.has_group:
        assert (loader.groups, committed(loader)) == ({}, {})
    elif case.group is None:
        assert (loader.groups, committed(loader)) == ({GROUP: simple_group(GROUP)}, answered)
    else:
        (group,) = loader.groups.values()
        assert {name: getattr(group, name) for name in case.group} == case.group
        members = [member.member_id for member in group.members]
        assert members == ([] if group.leader is None else [group.leader])
        assert committed(loader) == answered


def damaged_batch(log: Log) -> None:
    """A batch whose last byte is another one, and a sound batch behind it."""
    log.append(*commits({FOO_0: 2}))
    log.raw[-1] ^= 0xFF
    log.append(*commits({FOO_1: 2}))


def announces_one_record_more(log: Log) -> None:
    """The checksum fits."""
    batch = log.raw
    struct.pack_into(">i", batch, 57, 2)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))


OFFSET_KEY = commits({FOO_0: 0})[0][0]
BAD: dict[str, tuple[Step, str]] = {
    "null key": (plain((None, b"x"), *commits({FOO_1: 2})), "null key"),
    "unsupported version": (
        plain((OFFSET_KEY, b"\x00\x05"), *commits({FOO_1: 2})),
        "OffsetCommitValue v5 field version at byte 0: unsupported version; known: 0 to 4",
    ),
    "corrupt batch": (damaged_batch, "CRC-32C"),
}
REFUSED: dict[str, tuple[list[Step], int, str, dict[Partition, int]]] = {
    **{
        name: ([plain(*commits({FOO_0: 1})), step], 1, reason, {FOO_0: 1, FOO_1: 2})
        for name, (step, reason) in BAD.items()
    },
    # The records before it count.
    "broken record": (
        [plain(*commits({FOO_0: 1})), announces_one_record_more],
        *(0, "record 1 of 2: ", {FOO_0: 1}),
    ),
    # It ends nothing: the commit before it waits.
    "control record": (
        [transactional(1000, *commits({FOO_0: 1})), lambda log: log.control((None, b""))],
        *(1, "null key", {}),
    ),
}


@both
@pytest.mark.parametrize(
    ("steps", "record_offset", "reason", "expected"), REFUSED.values(), ids=REFUSED
)
def test_deserialization_error_fails_the_loading(
    semantics: Semantics,
    steps: list[Step],
    record_offset: int,
    reason: str,
    expected: dict[Partition, int],
) -> None:
    """As `testDeserializationErrorFailsTheLoading` of CoordinatorLoaderImplTest.

    A load that is not strict leaves the record out.
    """
    log = Log()
    for append in steps:
        append(log)
    with pytest.raises(ReplayError, match=f"^record offset {record_offset}: {reason}") as caught:
        log.load(semantics)
    assert caught.value.record_offset == record_offset

    loader = log.load(semantics, strict=False)
    (warning,) = loader.warnings
    assert (warning.record_offset, warning.reason.startswith(reason)) == (record_offset, True)
    assert committed(loader) == expected
    assert waiting(loader) == ({} if expected else {1000: {FOO_0: 1}})
    assert loader.groups == {GROUP: simple_group(GROUP)}


@both
@pytest.mark.parametrize("version", range(5))
def test_a_key_of_type_0_is_the_same_key(semantics: Semantics, version: int) -> None:
    """Brokers up to 4.0 read any value behind it; 4.1 and later fail on all but v0."""
    log = Log()
    log.append(*commits({FOO_0: 1}, record_type=0, version=version))
    log.append(*commits({FOO_0: 2}))
    log.append(*commits({FOO_1: 3}), *commits({FOO_1: None}, record_type=0))

    reason = f"unknown record version {version} for 0 type"
    for release in (V_4_0, V_4_1):
        loader = log.load(semantics, strict=False, release=release)
        assert committed(loader) == {FOO_0: 2}
        is_refused = version > 0 and semantics is COORDINATOR and release is V_4_1
        assert loader.replay_warnings == [LoadWarning(record_offset=0, reason=reason)][:is_refused]


def test_offset_fetch_answers_for_the_group_alone() -> None:
    log = Log()
    log.append(*commits({FOO_0: 1}), *commits({FOO_0: 2}, group_id="other"))
    loader = log.load()

    assert committed(loader) == {FOO_0: 1}
    assert committed(loader, "other") == {FOO_0: 2}
    assert loader.offset_fetch("nobody") == {}


def test_groups_of_other_types_are_known_by_name_to_coordinator_and_unknown_to_scala() -> None:
    key = encode_key(RECORD_TYPES[3], {"groupId": "c"})
    log = Log()
    log.append(*commits({FOO_0: 1}, group_id="c"), (key, b"\x00\x00\x00\x00\x00\x05\x00"))

    group = log.load(COORDINATOR).groups["c"]
    assert (group.group_type, group.record_offset) == (CONSUMER, 1)
    assert committed(log.load(COORDINATOR), "c") == {FOO_0: 1}
    assert log.load(SCALA).groups == {"c": simple_group("c")}

    epoch_key = encode_key(RECORD_TYPES[6], {"groupId": "c"})
    log.append((epoch_key, None), (key, None))
    assert log.load(COORDINATOR).groups == {}
    assert log.load(SCALA).groups["c"].group_type == CLASSIC


def test_a_static_member_that_is_there_twice_stops_a_strict_load() -> None:
    log = Log()
    log.append(group_record("m", "n"))

    reason = f"Static member with groupInstanceId=bar cannot be added to group {GROUP} "
    with pytest.raises(ReplayError, match=f"^record offset 0: {reason}"):
        log.load()
    group = log.load(strict=False).groups[GROUP]
    assert (group.replay_warning or "").startswith(f"record offset 0: {reason}")
    assert len(group.members) == 2
