"""Where the two loaders part, and what neither is asked in Kafka's own tests.

Worked results are those of `GroupCoordinatorShard` at 4.2.0.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from coordinator_state.errors import ReplayError
from coordinator_state.log.message_set import write_message_set
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key
from coordinator_state.replay.groups import (
    CLASSIC,
    CONSUMER,
    NO_RECORD_OFFSET,
    simple_group,
)
from coordinator_state.replay.offsets import CommittedOffset, Semantics
from tests.support.logs.loader_log import (
    ABORT,
    COMMITTED,
    COORDINATOR,
    GROUP,
    NOW_MS,
    SCALA,
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
from tests.support.logs.logs import group_record_value


@pytest.mark.parametrize(("semantics", "expected"), [(COORDINATOR, {}), (SCALA, {("foo", 0): 10})])
def test_a_tombstone_between_a_transactional_commit_and_its_marker(
    semantics: Semantics, expected: dict[Partition, int]
) -> None:
    """Worked result: transactional 10, tombstone, COMMIT."""
    log = Log()
    log.transactional(1000, *commits({("foo", 0): 10}))
    log.append(*commits({("foo", 0): None}))
    log.marker(1000)
    loader = log.load(semantics)

    assert committed(loader) == expected
    assert loader.pending == {}
    assert set(loader.groups) == {GROUP}


@pytest.mark.parametrize(
    ("semantics", "expected"), [(COORDINATOR, {GROUP: simple_group(GROUP)}), (SCALA, {})]
)
def test_a_simple_group_without_offsets_left(
    semantics: Semantics, expected: dict[str, Any]
) -> None:
    """Worked result: plain commit, tombstone."""
    log = Log()
    log.append(*commits({("foo", 0): 1}), *commits({("foo", 0): None}))

    assert log.load(semantics).groups == expected


def test_offsets_of_a_removed_group_show_again_with_its_next_commit() -> None:
    """Worked result of `coordinator`: they stay in the map while the group is gone."""
    log = Log()
    log.append(*commits({("foo", 0): 1}), (group_key(), None))
    loader = log.load()
    assert loader.groups == {}
    assert committed(loader) == {}
    assert list(loader.offsets) == [key_of(("foo", 0))]

    log.append(*commits({("foo", 1): 2}))
    loader = log.load()
    assert loader.groups == {GROUP: simple_group(GROUP)}
    assert committed(loader) == {("foo", 0): 1, ("foo", 1): 2}


def test_under_scala_surviving_offsets_keep_a_removed_group_alive() -> None:
    """KAFKA-4704."""
    log = Log()
    log.append(*commits({("foo", 0): 1}), group_record("m"), (group_key(), None))
    loader = log.load(SCALA)

    assert loader.groups == {GROUP: simple_group(GROUP)}
    assert committed(loader) == {("foo", 0): 1}


@pytest.mark.parametrize(
    ("semantics", "stored", "pending"),
    [(COORDINATOR, {}, {1000: {("foo", 0): 1}}), (SCALA, {("foo", 0): 1}, {})],
)
def test_an_idempotent_producer_without_a_transaction(
    semantics: Semantics, stored: dict[Partition, int], pending: dict[int, Any]
) -> None:
    log = Log()
    log.append(*commits({("foo", 0): 1}), producer_id=1000)
    loader = log.load(semantics)

    assert committed(loader) == stored
    assert waiting(loader) == pending


@both
def test_a_marker_without_data_is_usual_after_compaction(semantics: Semantics) -> None:
    log = Log(next_offset=100)
    log.marker(1000)
    log.marker(1001, ABORT)
    log.next_offset += 500
    log.append(*commits({("foo", 0): 1}))
    log.marker(1000)
    loader = log.load(semantics)

    assert loader.offsets[key_of(("foo", 0))].record_offset == 602
    assert loader.warnings == []


@both
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_older_formats_are_plain(semantics: Semantics, magic: int) -> None:
    old = [
        (offset, NOW_MS, key, value)
        for offset, (key, value) in enumerate(commits(COMMITTED, version=1, record_type=0))
    ]
    log = Log(next_offset=3)
    log.raw += write_message_set(old, magic=magic)
    log.append(*commits({("foo", 1): None}))
    loader = log.load(semantics, strict=False)

    assert committed(loader) == {("foo", 0): 23, ("bar", 0): 8992}


@both
@pytest.mark.parametrize("version", range(5))
def test_a_key_of_type_0_is_the_same_key(semantics: Semantics, version: int) -> None:
    """Brokers up to 4.0 read any value behind it; 4.1 and later fail on all but v0."""
    log = Log()
    log.append(*commits({("foo", 0): 1}, record_type=0, version=version))
    log.append(*commits({("foo", 0): 2}))
    log.append(*commits({("foo", 1): 3}), *commits({("foo", 1): None}, record_type=0))

    loader = log.load(semantics, strict=False)
    assert committed(loader) == {("foo", 0): 2}
    is_refused = version > 0 and semantics is COORDINATOR
    assert [warning.reason for warning in loader.replay_warnings] == (
        [f"unknown record version {version} for 0 type"] if is_refused else []
    )


@both
def test_what_a_commit_says(semantics: Semantics) -> None:
    log = Log()
    topic_id = UUID("523e709f-f16a-4d78-ab10-04af559458d7")
    log.append(*commits({("foo", 0): 1}, version=4, leaderEpoch=7, topicId=topic_id, metadata="m"))
    log.append(*commits({("foo", 1): 2}, version=4))
    loader = log.load(semantics)

    # `offset_value` dates a commit by its offset.
    assert loader.offsets == {
        key_of(("foo", 0)): CommittedOffset(
            committed_offset=1,
            leader_epoch=7,
            metadata="m",
            commit_timestamp_ms=NOW_MS + 1,
            topic_id="Uj5wn_FqTXirEASvVZRY1w",
            record_offset=0,
        ),
        key_of(("foo", 1)): CommittedOffset(
            committed_offset=2, commit_timestamp_ms=NOW_MS + 2, record_offset=1
        ),
    }


def test_offset_fetch_answers_for_the_group_alone() -> None:
    log = Log()
    log.append(*commits({("foo", 0): 1}), *commits({("foo", 0): 2}, group_id="other"))
    loader = log.load()

    assert committed(loader) == {("foo", 0): 1}
    assert committed(loader, "other") == {("foo", 0): 2}
    assert loader.offset_fetch("nobody") == {}


def test_groups_of_other_types_are_known_by_name_to_coordinator_and_unknown_to_scala() -> None:
    key = encode_key(RECORD_TYPES[3], {"groupId": "c"})
    log = Log()
    log.append(*commits({("foo", 0): 1}, group_id="c"), (key, b"\x00\x00\x00\x00\x00\x05\x00"))

    group = log.load(COORDINATOR).groups["c"]
    assert (group.group_type, group.record_offset) == (CONSUMER, 1)
    assert committed(log.load(COORDINATOR), "c") == {("foo", 0): 1}
    assert log.load(SCALA).groups == {"c": simple_group("c")}

    epoch_key = encode_key(RECORD_TYPES[6], {"groupId": "c"})
    log.append((epoch_key, None), (key, None))
    assert log.load(COORDINATOR).groups == {}
    assert log.load(SCALA).groups["c"].group_type == CLASSIC


def test_a_classic_group_that_migrates_to_the_consumer_protocol() -> None:
    """As `convertToConsumerGroup` writes it: the group tombstone, then the new records."""
    log = Log()
    log.append(group_record("m"))
    member_key = encode_key(RECORD_TYPES[5], {"groupId": GROUP, "memberId": "m"})
    metadata_key = encode_key(RECORD_TYPES[3], {"groupId": GROUP})
    new_records = (
        (member_key, group_record_value(5)),
        (metadata_key, group_record_value(3)),
    )
    log.append((group_key(), None), *new_records)
    assert log.load().groups[GROUP].group_type == CONSUMER

    current_key = encode_key(RECORD_TYPES[8], {"groupId": GROUP, "memberId": "m"})
    epoch_key = encode_key(RECORD_TYPES[6], {"groupId": GROUP})
    tombstones = [(key, None) for key in (current_key, epoch_key, member_key, metadata_key)]
    log.append(*tombstones, group_record("m"))
    assert log.load().groups[GROUP].group_type == CLASSIC


def test_a_static_member_that_is_there_twice_stops_a_strict_load() -> None:
    log = Log()
    log.append(group_record("m", "n"))

    reason = f"Static member with groupInstanceId=bar cannot be added to group {GROUP} "
    with pytest.raises(ReplayError, match=f"^record offset 0: {reason}"):
        log.load()
    group = log.load(strict=False).groups[GROUP]
    assert (group.replay_warning or "").startswith(f"record offset 0: {reason}")
    assert len(group.members) == 2


def test_a_group_known_from_its_offsets_alone_has_no_record() -> None:
    log = Log(next_offset=5)
    log.append(*commits({("foo", 0): 1}))

    assert log.load().groups[GROUP].record_offset == NO_RECORD_OFFSET
