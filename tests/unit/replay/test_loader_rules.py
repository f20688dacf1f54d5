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
    simple_group,
)
from coordinator_state.replay.offsets import CommittedOffset, Semantics
from tests.support.logs.loader_log import (
    COMMITTED,
    COORDINATOR,
    GROUP,
    NOW_MS,
    SCALA,
    Log,
    both,
    commits,
    committed,
    group_key,
    group_record,
    key_of,
)


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


def test_a_static_member_that_is_there_twice_stops_a_strict_load() -> None:
    log = Log()
    log.append(group_record("m", "n"))

    reason = f"Static member with groupInstanceId=bar cannot be added to group {GROUP} "
    with pytest.raises(ReplayError, match=f"^record offset 0: {reason}"):
        log.load()
    group = log.load(strict=False).groups[GROUP]
    assert (group.replay_warning or "").startswith(f"record offset 0: {reason}")
    assert len(group.members) == 2
