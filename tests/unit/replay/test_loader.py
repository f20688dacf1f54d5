"""The reference loader, from record batches to what a coordinator answers: Kafka's own tests.

They follow the Scala GroupMetadataManagerTest of 3.9 (folder
core/src/test/scala/unit/kafka/coordinator/group) and, where they say so, CoordinatorLoaderImplTest
of 4.2, and run under both semantics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.replay.groups import (
    EMPTY,
    STABLE,
    simple_group,
)
from coordinator_state.replay.loader import LoadWarning
from coordinator_state.replay.offsets import Semantics
from tests.support.logs.loader_log import (
    ABORT,
    COMMIT,
    COMMITTED,
    COORDINATOR,
    GROUP,
    NOW_MS,
    OTHERS,
    SCALA,
    KeyAndValue,
    Log,
    Partition,
    both,
    commits,
    committed,
    group_key,
    group_record,
    key_of,
    waiting,
)

Step = Callable[[Log], int]
"""Appends to a log and returns the record offset."""

Stored = dict[Partition, tuple[int, int, int | None]]
"""By topic and partition: the committed offset, its record offset and its producer id."""

PENDING = {("foo", 3): 2312, ("foo", 4): 45512, ("bar", 2): 899212}


def plain(*records: KeyAndValue) -> Step:
    return lambda log: log.append(*records)


def transactional(producer_id: int, *records: KeyAndValue) -> Step:
    return lambda log: log.transactional(producer_id, *records)


def marker(producer_id: int, control_type: int = COMMIT, *, epoch: int = 2) -> Step:
    return lambda log: log.marker(producer_id, control_type, epoch=epoch)


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
    """A log of one group, and the state after its load."""

    steps: list[Step]
    offsets: Stored = field(default_factory=dict)
    pending: dict[int, dict[Partition, int]] = field(default_factory=dict)
    has_group: bool = True


CASES = {
    "testLoadOffsetsWithoutGroup": Case(
        steps=[plain(*commits(COMMITTED))], offsets=stored(COMMITTED, 0)
    ),
    "testLoadTransactionalOffsetsWithoutGroup": Case(
        steps=[transactional(1000, *commits(COMMITTED)), marker(1000)],
        offsets=stored(COMMITTED, 0, 1000),
    ),
    "testGroupLoadedWithPendingCommits": Case(
        steps=[transactional(1000, *commits(COMMITTED))], pending={1000: COMMITTED}
    ),
    "testLoadWithCommittedAndAbortedAndPendingTransactionalOffsetCommits": Case(
        steps=[
            transactional(1000, *commits(COMMITTED)),
            marker(1000),
            transactional(1000, *commits(OTHERS)),
            marker(1000, ABORT),
            transactional(1000, *commits(PENDING)),
        ],
        offsets=stored(COMMITTED, 0, 1000),
        pending={1000: PENDING},
    ),
    "the same after the end of the last transaction": Case(
        steps=[
            transactional(1000, *commits(OTHERS)),
            marker(1000, ABORT),
            transactional(1000, *commits(PENDING)),
            marker(1000),
        ],
        offsets=stored(PENDING, 4, 1000),
    ),
    "testLoadTransactionalOffsetCommitsFromMultipleProducers": Case(
        steps=[
            transactional(1000, *commits(COMMITTED)),
            marker(1000),
            transactional(1001, *commits(OTHERS)),
            marker(1001, epoch=3),
        ],
        offsets=stored(COMMITTED, 0, 1000) | stored(OTHERS, 4, 1001),
    ),
    "testGroupLoadWithConsumerAndTransactionalOffsetCommitsConsumerWins": Case(
        steps=[
            transactional(1000, *commits({("foo", 0): 23})),
            plain(*commits({("foo", 0): 24})),
            marker(1000),
        ],
        offsets=stored({("foo", 0): 24}, 1),
    ),
    "testGroupLoadWithConsumerAndTransactionalOffsetCommitsTransactionWins": Case(
        steps=[
            plain(*commits({("foo", 0): 24})),
            transactional(1000, *commits({("foo", 0): 23})),
            marker(1000),
        ],
        offsets=stored({("foo", 0): 23}, 1, 1000),
    ),
    "testLoadOffsetsWithTombstones": Case(
        steps=[plain(*commits(COMMITTED), *commits({("foo", 1): None}))],
        offsets={("foo", 0): (23, 0, None), ("bar", 0): (8992, 2, None)},
    ),
    "testLoadGroupWithTombstone": Case(
        steps=[plain(group_record("98098230493"), (group_key(), None))], has_group=False
    ),
    "testOffsetWriteAfterGroupRemoved": Case(
        steps=[plain(group_record("98098230493"), (group_key(), None), *commits(COMMITTED))],
        offsets=stored(COMMITTED, 2),
    ),
}


@both
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_load_of_offsets(semantics: Semantics, case: Case) -> None:
    """A group known only from its offsets is a simple group."""
    log = Log()
    for append in case.steps:
        append(log)
    loader = log.load(semantics)

    assert case.offsets == {
        (key.topic, key.partition): (value.committed_offset, value.record_offset, value.producer_id)
        for key, value in loader.offsets.items()
    }
    assert committed(loader) == {key: value for key, (value, *_) in case.offsets.items()}
    assert waiting(loader) == case.pending
    assert loader.groups == ({GROUP: simple_group(GROUP)} if case.has_group else {})


@both
def test_load_empty_group_with_offsets(semantics: Semantics) -> None:
    """As `testLoadEmptyGroupWithOffsets`."""
    log = Log(next_offset=15)
    log.append(*commits(COMMITTED), group_record(generation=15))
    loader = log.load(semantics)

    group = loader.groups[GROUP]
    assert (group.state, group.generation, group.protocol_type) == (EMPTY, 15, "consumer")
    assert (group.leader, group.protocol, group.record_offset) == (None, None, 18)
    assert committed(loader) == COMMITTED


@both
def test_load_offsets_and_group(semantics: Semantics) -> None:
    """As `testLoadOffsetsAndGroup`."""
    log = Log(next_offset=15)
    log.append(*commits(COMMITTED), group_record("98098230493"))
    loader = log.load(semantics)

    group = loader.groups[GROUP]
    assert (group.state, group.generation, group.protocol) == (STABLE, 935, "range")
    assert (group.leader, [m.member_id for m in group.members]) == ("98098230493", ["98098230493"])
    assert committed(loader) == COMMITTED
    assert all(offset.expire_timestamp_ms is None for offset in loader.offsets.values())


@pytest.mark.parametrize(
    ("semantics", "expected"), [(COORDINATOR, {GROUP: simple_group(GROUP)}), (SCALA, {})]
)
def test_do_not_load_aborted_transactional_offset_commits(
    semantics: Semantics, expected: dict[str, Any]
) -> None:
    """As `testDoNotLoadAbortedTransactionalOffsetCommits`; a commit makes its group at once."""
    log = Log()
    log.transactional(1000, *commits(COMMITTED))
    log.marker(1000, ABORT)
    loader = log.load(semantics)

    assert (loader.offsets, loader.pending) == ({}, {})
    assert loader.groups == expected
    assert loader.offset_fetch(GROUP) == {}


@both
def test_load_offset_from_old_commit(semantics: Semantics) -> None:
    """As `testLoadOffsetFromOldCommit`: value v1 of Kafka 1.1, group value v1."""
    expire_ms = NOW_MS + 100
    log = Log(next_offset=15)
    log.append(
        *commits(COMMITTED, version=1, expireTimestamp=expire_ms), group_record("m", version=1)
    )
    loader = log.load(semantics)

    assert committed(loader) == COMMITTED
    assert {offset.expire_timestamp_ms for offset in loader.offsets.values()} == {expire_ms}
    group = loader.groups[GROUP]
    assert (group.state, group.leader, group.state_timestamp_ms) == (STABLE, "m", None)


@both
def test_load_offset_with_explicit_retention(semantics: Semantics) -> None:
    """As `testLoadOffsetWithExplicitRetention`: v1 among newer values."""
    log = Log(next_offset=15)
    log.append(
        *commits({("foo", 0): 23}, version=1, expireTimestamp=NOW_MS + 100),
        *commits({("foo", 1): 455}, version=1),
        *commits({("bar", 0): 8992}, version=3),
        group_record("m"),
    )
    loader = log.load(semantics)

    assert committed(loader) == COMMITTED
    assert [loader.offsets[key_of(p)].expire_timestamp_ms for p in COMMITTED] == [
        NOW_MS + 100,
        None,
        None,
    ]


@both
def test_load_offsets_with_empty_control_batch(semantics: Semantics) -> None:
    """As `testLoadOffsetsWithEmptyControlBatch`: the cleaner took the marker, not its batch."""
    log = Log(next_offset=15)
    log.transactional(1000, *commits({("foo", 7): 1}))
    log.raw += write_record_batch(
        16, [], producer_id=1000, producer_epoch=2, is_transactional=True, is_control=True
    )
    log.next_offset = 17
    log.append(*commits(COMMITTED), group_record(generation=15))
    loader = log.load(semantics)

    assert committed(loader) == COMMITTED
    assert waiting(loader) == {1000: {("foo", 7): 1}}
    assert loader.groups[GROUP].generation == 15


@both
def test_load_group_and_offsets_with_corrupted_log(semantics: Semantics) -> None:
    """As `testLoadGroupAndOffsetsWithCorruptedLog`: nothing where something should be."""
    loader = Log().load(semantics)

    assert (loader.offsets, loader.pending, loader.groups, loader.warnings) == ({}, {}, {}, [])


@both
def test_load_groups_and_offsets_will_ignore_unknown_message(semantics: Semantics) -> None:
    """As `testLoadGroupsAndOffsetsWillIgnoreUnknownMessage`, `testUnknownRecordTypeAreIgnored`."""
    log = Log(next_offset=15)
    log.append(
        *commits(COMMITTED),
        (b"\x7f\xffgarbage", b"garbage"),
        (b"\xff\xff", None),
        group_record("m"),
    )
    loader = log.load(semantics)

    assert committed(loader) == COMMITTED
    assert loader.groups[GROUP].state == STABLE
    assert loader.warnings == [
        LoadWarning(record_offset=18, reason="unknown record type 32767"),
        LoadWarning(record_offset=19, reason="unknown record type -1"),
    ]
