"""The replay rules of offsets.

Tests that name one of Kafka's follow OffsetMetadataManagerTest (group-coordinator/src/test/java/
org/apache/kafka/coordinator/group at 4.2.0); worked results are those of `GroupCoordinatorShard`.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state.records.record_types import NO_PRODUCER_ID
from coordinator_state.replay.offsets import (
    CONTROL_TYPE_ABORT,
    CONTROL_TYPE_COMMIT,
    CommittedOffset,
    OffsetKey,
    OffsetReplay,
    Outcome,
    Resolved,
    Semantics,
)

BAR_0 = OffsetKey("foo", "bar", 0)
BAR_1 = OffsetKey("foo", "bar", 1)
LEADER_CHANGE = 2
"""A control record type that ends no transaction."""

both = pytest.mark.parametrize("semantics", list(Semantics))


def record(record_offset: int, committed_offset: int, **fields: Any) -> CommittedOffset:
    """A commit at a place in the log."""
    return CommittedOffset(
        record_offset=record_offset,
        committed_offset=committed_offset,
        **{"metadata": "small", "commit_timestamp_ms": 1234, **fields},
    )


def replay_plain(replay: OffsetReplay, key: OffsetKey, commit: CommittedOffset) -> None:
    """A plain commit takes effect at once and decides about nothing else."""
    assert replay.replay_commit(key, commit, is_transactional=False) == []
    assert replay.offsets[key] == commit


def replay_transactional(
    replay: OffsetReplay, producer_id: int, key: OffsetKey, record_offset: int, committed: int
) -> CommittedOffset:
    """A transactional commit waits and leaves the stored offset alone."""
    stored = replay.offsets.get(key)
    commit = record(record_offset, committed, producer_id=producer_id, producer_epoch=0)
    replay.replay_commit(key, commit, is_transactional=True)
    assert replay.pending[producer_id][key] == commit
    assert replay.offsets.get(key) == stored
    return commit


def committed_offsets(replay: OffsetReplay) -> dict[OffsetKey, int]:
    return {key: commit.committed_offset for key, commit in replay.offsets.items()}


@both
def test_replay(semantics: Semantics) -> None:
    """As `testReplay`: the last one counts, whatever it says."""
    replay = OffsetReplay(semantics)

    replay_plain(replay, BAR_0, record(0, 100))
    replay_plain(replay, BAR_0, record(1, 200, leader_epoch=10))
    replay_plain(replay, BAR_1, record(2, 200, leader_epoch=10))
    replay_plain(replay, BAR_1, record(3, 300, leader_epoch=10, expire_timestamp_ms=12345))
    replay_plain(replay, BAR_1, record(4, 5))

    assert committed_offsets(replay) == {BAR_0: 200, BAR_1: 5}
    assert replay.pending == {}


@both
def test_transactional_replay(semantics: Semantics) -> None:
    """As `testTransactionalReplay`: several producers, groups and partitions wait."""
    replay = OffsetReplay(semantics)

    for record_offset, (producer_id, group_id, topic, partition) in enumerate(
        [
            (5, "foo", "bar", 0),
            (5, "foo", "bar", 1),
            (5, "bar", "zar", 0),
            (5, "bar", "zar", 1),
            (6, "foo", "bar", 2),
            (6, "foo", "bar", 3),
        ]
    ):
        key = OffsetKey(group_id, topic, partition)
        replay_transactional(replay, producer_id, key, record_offset, 100 + record_offset)

    assert {producer_id: len(waiting) for producer_id, waiting in replay.pending.items()} == {
        5: 4,
        6: 2,
    }
    assert replay.offsets == {}


def test_replay_with_tombstone_and_pending_transactional_offsets() -> None:
    """As `testReplayWithTombstoneAndPendingTransactionalOffsets`."""
    replay = OffsetReplay(Semantics.COORDINATOR)
    replay_plain(replay, BAR_0, record(0, 100))
    waiting = replay_transactional(replay, 10, BAR_0, 1, 100)
    other = replay_transactional(replay, 10, BAR_1, 2, 100)

    assert replay.replay_tombstone(BAR_0) == [Resolved(BAR_0, waiting, Outcome.CLEARED)]
    assert replay.replay_tombstone(BAR_1) == [Resolved(BAR_1, other, Outcome.CLEARED)]

    assert (replay.offsets, replay.pending) == ({}, {})
    assert replay.replay_end_transaction_marker(10, CONTROL_TYPE_COMMIT) == []
    assert replay.offsets == {}


def test_delete_group_all_offsets_with_pending_transactional_offsets() -> None:
    """As `testDeleteGroupAllOffsetsWithPendingTransactionalOffsets`: by tombstones, each once."""
    replay = OffsetReplay(Semantics.COORDINATOR)
    keys = [OffsetKey("foo", *at) for at in (("bar-0", 0), ("bar-0", 1), ("bar-1", 0))]
    for record_offset, key in enumerate(keys):
        replay_plain(replay, key, record(record_offset, 100))
    pending_only = OffsetKey("foo", "bar-2", 0)
    replay_transactional(replay, 10, keys[2], 3, 101)
    replay_transactional(replay, 10, pending_only, 4, 100)

    for key in (*keys, pending_only):
        replay.replay_tombstone(key)
    assert (replay.offsets, replay.pending) == ({}, {})


def test_under_scala_a_tombstone_leaves_pending_offsets_waiting() -> None:
    replay = OffsetReplay(Semantics.SCALA)
    replay_plain(replay, BAR_0, record(0, 100))
    waiting = replay_transactional(replay, 10, BAR_0, 1, 101)

    assert replay.replay_tombstone(BAR_0) == []
    assert replay.offsets == {}

    ended = replay.replay_end_transaction_marker(10, CONTROL_TYPE_COMMIT)
    assert ended == [Resolved(BAR_0, waiting, Outcome.COMMITTED)]
    assert replay.offsets == {BAR_0: waiting}


@both
def test_replay_transaction_end_marker(semantics: Semantics) -> None:
    """As `testReplayTransactionEndMarkerWithCommit`: COMMIT of one producer, ABORT of another."""
    replay = OffsetReplay(semantics)
    replay_plain(replay, BAR_0, record(0, 99))
    of_5 = replay_transactional(replay, 5, BAR_0, 1, 100)
    of_6 = replay_transactional(replay, 6, BAR_1, 2, 200)

    assert replay.replay_end_transaction_marker(1, CONTROL_TYPE_COMMIT) == []
    assert replay.replay_end_transaction_marker(5, CONTROL_TYPE_COMMIT) == [
        Resolved(BAR_0, of_5, Outcome.COMMITTED)
    ]
    assert replay.replay_end_transaction_marker(6, CONTROL_TYPE_ABORT) == [
        Resolved(BAR_1, of_6, Outcome.ABORTED)
    ]

    assert replay.offsets == {BAR_0: of_5}
    assert replay.pending == {}


@both
def test_replay_transaction_end_marker_keeps_the_most_recent_committed_offset(
    semantics: Semantics,
) -> None:
    """As `testReplayTransactionEndMarkerKeepsTheMostRecentCommittedOffset`."""
    replay = OffsetReplay(semantics)
    replay_transactional(replay, 5, BAR_0, 0, 100)
    replay_plain(replay, BAR_0, record(1, 101))

    replay.replay_end_transaction_marker(5, CONTROL_TYPE_COMMIT)

    assert replay.pending == {}
    assert replay.offsets == {BAR_0: record(1, 101)}


@both
def test_the_place_in_the_log_decides_and_not_the_order_of_the_markers(
    semantics: Semantics,
) -> None:
    """Worked result: producer 7 commits 10, producer 8 then 5; COMMIT of 8, of 7 give 5."""
    replay = OffsetReplay(semantics)
    replay_transactional(replay, 7, BAR_0, 0, 10)
    replay_transactional(replay, 8, BAR_0, 1, 5)

    replay.replay_end_transaction_marker(8, CONTROL_TYPE_COMMIT)
    replay.replay_end_transaction_marker(7, CONTROL_TYPE_COMMIT)

    assert committed_offsets(replay) == {BAR_0: 5}


@both
def test_a_producer_that_commits_a_key_again_supersedes_itself_only(semantics: Semantics) -> None:
    replay = OffsetReplay(semantics)
    first = replay_transactional(replay, 7, BAR_0, 0, 1)
    of_8 = replay_transactional(replay, 8, BAR_0, 1, 2)
    again = record(2, 3, producer_id=7)

    assert replay.replay_commit(BAR_0, again, is_transactional=True) == [
        Resolved(BAR_0, first, Outcome.SUPERSEDED)
    ]
    assert replay.pending == {7: {BAR_0: again}, 8: {BAR_0: of_8}}


@both
def test_the_epoch_of_a_producer_decides_nothing(semantics: Semantics) -> None:
    replay = OffsetReplay(semantics)
    replay.replay_commit(
        BAR_0, record(0, 1, producer_id=7, producer_epoch=3), is_transactional=True
    )
    late = record(1, 2, producer_id=7, producer_epoch=2)
    replay.replay_commit(BAR_1, late, is_transactional=True)

    replay.replay_end_transaction_marker(7, CONTROL_TYPE_COMMIT)

    assert committed_offsets(replay) == {BAR_0: 1, BAR_1: 2}


def test_a_tombstone_clears_the_key_of_every_producer_and_no_other_key() -> None:
    replay = OffsetReplay(Semantics.COORDINATOR)
    of_7 = replay_transactional(replay, 7, BAR_0, 0, 1)
    of_8 = replay_transactional(replay, 8, BAR_0, 1, 2)
    other = replay_transactional(replay, 8, BAR_1, 2, 3)

    assert replay.replay_tombstone(BAR_0) == [
        Resolved(BAR_0, of_7, Outcome.CLEARED),
        Resolved(BAR_0, of_8, Outcome.CLEARED),
    ]
    assert replay.pending == {8: {BAR_1: other}}


def test_a_transactional_tombstone_takes_effect_at_once_under_coordinator() -> None:
    """Worked result: even if the transaction aborts."""
    replay = OffsetReplay(Semantics.COORDINATOR)
    replay_plain(replay, BAR_0, record(0, 1))
    of_8 = replay_transactional(replay, 8, BAR_0, 1, 2)

    assert replay.replay_tombstone(BAR_0, producer_id=7, is_transactional=True) == [
        Resolved(BAR_0, of_8, Outcome.CLEARED)
    ]
    assert replay.replay_end_transaction_marker(7, CONTROL_TYPE_ABORT) == []
    assert (replay.offsets, replay.pending) == ({}, {})


def test_a_transactional_tombstone_touches_only_its_own_producer_under_scala() -> None:
    replay = OffsetReplay(Semantics.SCALA)
    replay_plain(replay, BAR_0, record(0, 1))
    of_7 = replay_transactional(replay, 7, BAR_0, 1, 2)
    of_8 = replay_transactional(replay, 8, BAR_0, 2, 3)

    cleared = replay.replay_tombstone(BAR_0, producer_id=7, is_transactional=True)

    assert cleared == [Resolved(BAR_0, of_7, Outcome.CLEARED)]
    assert committed_offsets(replay) == {BAR_0: 1}
    assert replay.pending == {8: {BAR_0: of_8}}
    assert replay.replay_tombstone(BAR_1, producer_id=7, is_transactional=True) == []


@both
def test_a_tombstone_of_an_unknown_key_is_nothing(semantics: Semantics) -> None:
    replay = OffsetReplay(semantics)

    assert replay.replay_tombstone(BAR_0) == []
    assert replay.replay_tombstone(BAR_0, producer_id=7, is_transactional=True) == []
    assert (replay.offsets, replay.pending) == ({}, {})


def test_other_control_records_are_ignored_under_coordinator_and_abort_under_scala() -> None:
    ignoring, aborting = OffsetReplay(Semantics.COORDINATOR), OffsetReplay(Semantics.SCALA)
    waiting = replay_transactional(ignoring, 7, BAR_0, 0, 1)
    replay_transactional(aborting, 7, BAR_0, 0, 1)

    assert ignoring.replay_end_transaction_marker(7, LEADER_CHANGE) == []
    assert ignoring.pending == {7: {BAR_0: waiting}}
    assert aborting.replay_end_transaction_marker(7, LEADER_CHANGE) == [
        Resolved(BAR_0, waiting, Outcome.ABORTED)
    ]
    assert (aborting.offsets, aborting.pending) == ({}, {})


@pytest.mark.parametrize(
    ("producer_id", "is_transactional", "coordinator", "scala"),
    [
        (NO_PRODUCER_ID, False, False, False),
        (7, True, True, True),
        (7, False, True, False),
        (NO_PRODUCER_ID, True, False, True),
    ],
)
def test_what_makes_a_record_transactional(
    producer_id: int, is_transactional: bool, coordinator: bool, scala: bool
) -> None:
    """The producer id to `coordinator`, the attribute of the batch to `scala`."""
    for semantics, waits in ((Semantics.COORDINATOR, coordinator), (Semantics.SCALA, scala)):
        replay = OffsetReplay(semantics)
        assert replay.is_transactional(producer_id, is_transactional) is waits


def test_a_transactional_commit_without_a_producer_id_waits_for_a_marker_without_one() -> None:
    replay = OffsetReplay(Semantics.SCALA)
    replay.replay_commit(BAR_0, record(0, 1), is_transactional=True)

    assert replay.pending == {NO_PRODUCER_ID: {BAR_0: record(0, 1)}}
    replay.replay_end_transaction_marker(NO_PRODUCER_ID, CONTROL_TYPE_COMMIT)
    assert committed_offsets(replay) == {BAR_0: 1}
