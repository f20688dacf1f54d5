"""The reference loader, from record batches to what a coordinator answers: Kafka's own tests.

They follow the Scala GroupMetadataManagerTest of 3.9 (folder
core/src/test/scala/unit/kafka/coordinator/group) and, where they say so, CoordinatorLoaderImplTest
of 4.2, and run under both semantics.
"""

from __future__ import annotations

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
    Log,
    both,
    commits,
    committed,
    group_key,
    group_record,
    key_of,
    waiting,
)


@both
def test_load_offsets_without_group(semantics: Semantics) -> None:
    """As `testLoadOffsetsWithoutGroup`."""
    log = Log(next_offset=15)
    log.append(*commits(COMMITTED))
    loader = log.load(semantics)

    assert committed(loader) == COMMITTED
    assert loader.groups == {GROUP: simple_group(GROUP)}
    assert sorted(offset.record_offset for offset in loader.offsets.values()) == [15, 16, 17]


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


@both
def test_load_transactional_offsets_without_group(semantics: Semantics) -> None:
    """As `testLoadTransactionalOffsetsWithoutGroup`."""
    log = Log()
    log.transactional(1000, *commits(COMMITTED))
    log.marker(1000)
    loader = log.load(semantics)

    assert committed(loader) == COMMITTED
    assert loader.groups == {GROUP: simple_group(GROUP)}
    assert all(
        (offset.producer_id, offset.producer_epoch) == (1000, 2)
        for offset in loader.offsets.values()
    )


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
def test_group_loaded_with_pending_commits(semantics: Semantics) -> None:
    """As `testGroupLoadedWithPendingCommits`."""
    log = Log()
    log.transactional(1000, *commits(COMMITTED))
    loader = log.load(semantics)

    assert loader.groups == {GROUP: simple_group(GROUP)}
    assert committed(loader) == {}
    assert waiting(loader) == {1000: COMMITTED}


@both
def test_load_with_committed_and_aborted_and_pending_transactional_offset_commits(
    semantics: Semantics,
) -> None:
    """As `testLoadWithCommittedAndAbortedAndPendingTransactionalOffsetCommits`."""
    pending = {("foo", 3): 2312, ("foo", 4): 45512, ("bar", 2): 899212}
    log = Log()
    committed_at = log.transactional(1000, *commits(COMMITTED))
    log.marker(1000)
    log.transactional(1000, *commits(OTHERS))
    log.marker(1000, ABORT)
    log.transactional(1000, *commits(pending))
    loader = log.load(semantics)

    assert committed(loader) == COMMITTED
    assert [loader.offsets[key_of(p)].record_offset for p in COMMITTED] == [
        committed_at + delta for delta in range(3)
    ]
    assert waiting(loader) == {1000: pending}

    loader.replay_end_transaction_marker(1000, COMMIT)

    assert committed(loader) == {**COMMITTED, **pending}
    assert waiting(loader) == {}


@both
def test_load_transactional_offset_commits_from_multiple_producers(semantics: Semantics) -> None:
    """As `testLoadTransactionalOffsetCommitsFromMultipleProducers`."""
    log = Log()
    first = log.transactional(1000, *commits(COMMITTED))
    log.marker(1000)
    second = log.transactional(1001, *commits(OTHERS))
    log.marker(1001, epoch=3)
    loader = log.load(semantics)

    assert committed(loader) == {**COMMITTED, **OTHERS}
    assert [loader.offsets[key_of(p)].record_offset for p in COMMITTED] == [
        first + delta for delta in range(3)
    ]
    assert [loader.offsets[key_of(p)].record_offset for p in OTHERS] == [
        second + delta for delta in range(3)
    ]


@both
def test_group_load_with_consumer_and_transactional_offset_commits_consumer_wins(
    semantics: Semantics,
) -> None:
    """As `testGroupLoadWithConsumerAndTransactionalOffsetCommitsConsumerWins`."""
    log = Log()
    log.transactional(1000, *commits({("foo", 0): 23}))
    consumer_at = log.append(*commits({("foo", 0): 24}))
    log.marker(1000)
    loader = log.load(semantics)

    assert committed(loader) == {("foo", 0): 24}
    assert loader.offsets[key_of(("foo", 0))].record_offset == consumer_at
    assert loader.offsets[key_of(("foo", 0))].producer_id is None
    assert waiting(loader) == {}


@both
def test_group_load_with_consumer_and_transactional_offset_commits_transaction_wins(
    semantics: Semantics,
) -> None:
    """As `testGroupLoadWithConsumerAndTransactionalOffsetCommitsTransactionWins`."""
    log = Log()
    log.append(*commits({("foo", 0): 24}))
    log.transactional(1000, *commits({("foo", 0): 23}))
    log.marker(1000)
    loader = log.load(semantics)

    assert committed(loader) == {("foo", 0): 23}
    assert waiting(loader) == {}


@both
def test_load_offsets_with_tombstones(semantics: Semantics) -> None:
    """As `testLoadOffsetsWithTombstones`."""
    log = Log(next_offset=15)
    log.append(*commits(COMMITTED), *commits({("foo", 1): None}))
    loader = log.load(semantics)

    assert committed(loader) == {("foo", 0): 23, ("bar", 0): 8992}
    assert loader.groups == {GROUP: simple_group(GROUP)}


@both
def test_load_group_with_tombstone(semantics: Semantics) -> None:
    """As `testLoadGroupWithTombstone`."""
    log = Log(next_offset=15)
    log.append(group_record("98098230493"), (group_key(), None))
    loader = log.load(semantics)

    assert loader.groups == {}


@both
def test_offset_write_after_group_removed(semantics: Semantics) -> None:
    """As `testOffsetWriteAfterGroupRemoved`: a simple consumer takes over the id."""
    log = Log(next_offset=15)
    log.append(group_record("98098230493"), (group_key(), None), *commits(COMMITTED))
    loader = log.load(semantics)

    assert loader.groups == {GROUP: simple_group(GROUP)}
    assert committed(loader) == COMMITTED


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
