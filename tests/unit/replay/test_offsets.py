"""The replay rules of offsets.

Cases that name one of Kafka's follow OffsetMetadataManagerTest (group-coordinator/src/test/java/
org/apache/kafka/coordinator/group at 4.2.0) and the Scala GroupMetadataManagerTest of 3.9; worked
results are those of `GroupCoordinatorShard`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
ZAR_0 = OffsetKey("group", "zar", 0)
LEADER_CHANGE = 2
"""A control record type that ends no transaction."""
CLEARED, COMMITTED, ABORTED = Outcome.CLEARED, Outcome.COMMITTED, Outcome.ABORTED
COORDINATOR, SCALA = Semantics.COORDINATOR, Semantics.SCALA

Step = Callable[[OffsetReplay, int], list[Resolved]]
"""Replays a record at its offset."""
Commits = dict[OffsetKey, int]
"""The record offset of the commit of each key."""


def plain(key: OffsetKey = BAR_0) -> Step:
    return lambda replay, at: replay.replay_commit(key, commit(key, at), is_transactional=False)


def pending(producer_id: int | None, key: OffsetKey = BAR_0, *, epoch: int = 0) -> Step:
    """A transactional commit."""
    return lambda replay, at: replay.replay_commit(
        key, commit(key, at, producer_id, epoch), is_transactional=True
    )


def tombstone(key: OffsetKey = BAR_0, producer_id: int | None = None) -> Step:
    """A tombstone; one with a producer id is transactional."""
    if producer_id is None:
        return lambda replay, _: replay.replay_tombstone(key)
    return lambda replay, _: replay.replay_tombstone(
        key, producer_id=producer_id, is_transactional=True
    )


def marker(producer_id: int, control_type: int = CONTROL_TYPE_COMMIT) -> Step:
    return lambda replay, _: replay.replay_end_transaction_marker(producer_id, control_type)


def commit(
    key: OffsetKey,
    record_offset: int,
    producer_id: int | None = None,
    producer_epoch: int | None = None,
) -> CommittedOffset:
    """A commit with its key as metadata; a later one commits a lower offset."""
    return CommittedOffset(
        record_offset=record_offset,
        committed_offset=100 - record_offset,
        metadata=str(key),
        commit_timestamp_ms=1234,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def record_offsets(commits: Mapping[OffsetKey, CommittedOffset]) -> Commits:
    for key, value in commits.items():
        assert value == commit(key, value.record_offset, value.producer_id, value.producer_epoch)
    return {key: value.record_offset for key, value in commits.items()}


@dataclass(frozen=True)
class Case:
    """Records, and the state after them.

    `resolved` has, by record offset, the outcome of each commit and the record that decided it.
    """

    steps: list[Step]
    offsets: Commits = field(default_factory=dict)
    waiting: dict[int, Commits] = field(default_factory=dict)
    resolved: dict[int, tuple[Outcome, int]] = field(default_factory=dict)


BOTH: dict[str, Case] = {
    "testReplay: the last one counts, whatever it says": Case(
        [plain(), plain(), plain(BAR_1), plain(BAR_1), plain(BAR_1)], {BAR_0: 1, BAR_1: 4}
    ),
    "testTransactionalReplay: several producers, groups and partitions wait": Case(
        [pending(5), pending(5, BAR_1), pending(5, ZAR_0), pending(6), pending(6, ZAR_0)],
        waiting={5: {BAR_0: 0, BAR_1: 1, ZAR_0: 2}, 6: {BAR_0: 3, ZAR_0: 4}},
    ),
    "a commit that waits leaves the stored offset alone": Case(
        [plain(), pending(7)], {BAR_0: 0}, {7: {BAR_0: 1}}
    ),
    "testLoadTransactionalOffsetCommitsFromMultipleProducers": Case(
        [pending(7), marker(7), pending(8, BAR_1), marker(8), pending(7)],
        {BAR_0: 0, BAR_1: 2},
        {7: {BAR_0: 4}},
        {0: (COMMITTED, 1), 2: (COMMITTED, 3)},
    ),
    "testReplayTransactionEndMarkerWithCommit": Case(
        [
            *(plain(), pending(5), pending(6, BAR_1)),
            *(marker(1), marker(5), marker(6, CONTROL_TYPE_ABORT)),
        ],
        {BAR_0: 1},
        resolved={1: (COMMITTED, 4), 2: (ABORTED, 5)},
    ),
    "testReplayTransactionEndMarkerKeepsTheMostRecentCommittedOffset": Case(
        [pending(5), plain(), marker(5)], {BAR_0: 1}, resolved={0: (COMMITTED, 2)}
    ),
    "worked result: the place in the log decides, not the order of the markers": Case(
        [pending(7), pending(8), marker(8), marker(7)],
        {BAR_0: 1},
        resolved={0: (COMMITTED, 3), 1: (COMMITTED, 2)},
    ),
    "a producer that commits a key again supersedes only itself": Case(
        [pending(7), pending(8), pending(7)],
        waiting={7: {BAR_0: 2}, 8: {BAR_0: 1}},
        resolved={0: (Outcome.SUPERSEDED, 2)},
    ),
    "the epoch of a producer decides nothing": Case(
        [pending(7, epoch=3), pending(7, BAR_1, epoch=2), marker(7)],
        {BAR_0: 0, BAR_1: 1},
        resolved={0: (COMMITTED, 2), 1: (COMMITTED, 2)},
    ),
    "a tombstone of an unknown key": Case([tombstone(), tombstone(producer_id=7)]),
}
OF_COORDINATOR: dict[str, Case] = {
    "testReplayWithTombstoneAndPendingTransactionalOffsets": Case(
        [
            *(plain(), pending(10), pending(10, BAR_1)),
            *(tombstone(), tombstone(BAR_1), marker(10)),
        ],
        resolved={1: (CLEARED, 3), 2: (CLEARED, 4)},
    ),
    "testDeleteGroupAllOffsetsWithPendingTransactionalOffsets": Case(
        [
            *(plain(), plain(BAR_1), pending(10), pending(10, ZAR_0)),
            *(tombstone(BAR_0), tombstone(BAR_1), tombstone(ZAR_0)),
        ],
        resolved={2: (CLEARED, 4), 3: (CLEARED, 6)},
    ),
    "a tombstone clears the key of every producer and no other key": Case(
        [pending(7), pending(8), pending(8, BAR_1), tombstone()],
        waiting={8: {BAR_1: 2}},
        resolved={0: (CLEARED, 3), 1: (CLEARED, 3)},
    ),
    "worked result: a transactional tombstone takes effect at once, even if aborted": Case(
        [plain(), pending(8), tombstone(producer_id=7), marker(7, CONTROL_TYPE_ABORT)],
        resolved={1: (CLEARED, 2)},
    ),
    "other control records are ignored": Case(
        [pending(7), marker(7, LEADER_CHANGE)], waiting={7: {BAR_0: 0}}
    ),
}
OF_SCALA: dict[str, Case] = {
    "a tombstone leaves pending offsets waiting": Case(
        [plain(), pending(10), tombstone()], waiting={10: {BAR_0: 1}}
    ),
    "which the marker commits": Case(
        [plain(), pending(10), tombstone(), marker(10)],
        {BAR_0: 1},
        resolved={1: (COMMITTED, 3)},
    ),
    "a transactional tombstone touches only its own producer": Case(
        [
            *(plain(), pending(7), pending(8)),
            *(tombstone(producer_id=7), tombstone(BAR_1, producer_id=7)),
        ],
        {BAR_0: 0},
        {8: {BAR_0: 2}},
        {1: (CLEARED, 3)},
    ),
    "other control records abort": Case(
        [pending(7), marker(7, LEADER_CHANGE)], resolved={0: (ABORTED, 1)}
    ),
    "a commit without a producer id waits for a marker without one": Case(
        [pending(None), marker(NO_PRODUCER_ID)],
        {BAR_0: 0},
        resolved={0: (COMMITTED, 1)},
    ),
}
CASES = [
    pytest.param(semantics, case, id=f"{semantics.value}, {name}")
    for semantics, cases in ((COORDINATOR, BOTH | OF_COORDINATOR), (SCALA, BOTH | OF_SCALA))
    for name, case in cases.items()
]


@pytest.mark.parametrize(("semantics", "case"), CASES)
def test_replay(semantics: Semantics, case: Case) -> None:
    replay = OffsetReplay(semantics)
    resolved: dict[int, tuple[Outcome, int]] = {}
    for record_offset, step in enumerate(case.steps):
        for key, ended, outcome in step(replay, record_offset):
            record_offsets({key: ended})
            resolved[ended.record_offset] = (outcome, record_offset)

    assert resolved == case.resolved
    assert record_offsets(replay.offsets) == case.offsets
    waiting = {producer: record_offsets(commits) for producer, commits in replay.pending.items()}
    assert waiting == case.waiting


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
    for semantics, waits in ((COORDINATOR, coordinator), (SCALA, scala)):
        replay = OffsetReplay(semantics)
        assert replay.is_transactional(producer_id, is_transactional) is waits
