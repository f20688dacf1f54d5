"""Groups from the last record of each key and the offsets that are there."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state.replay.group_replay import GroupRecord, described, rebuilt_group
from coordinator_state.replay.groups import CLASSIC, CONSUMER, simple_group
from coordinator_state.replay.offsets import Semantics
from tests.support.logs.group_log import classic, value

COORDINATOR, SCALA = Semantics.COORDINATOR, Semantics.SCALA
NOTHING: dict[str, Any] = {"committed": (), "pending": (), "was_simple": False}


def group(record_offset: int, *members: str) -> GroupRecord:
    return GroupRecord(2, "g", "", classic(*members), record_offset)


def tombstone(record_offset: int) -> GroupRecord:
    return GroupRecord(2, "g", "", None, record_offset)


def epoch(record_offset: int) -> GroupRecord:
    return GroupRecord(3, "g", "", value(3, epoch=7), record_offset)


def rebuilt(semantics: Semantics, *records: GroupRecord, **offsets: Any) -> Any:
    found = rebuilt_group("g", records, semantics, **{**NOTHING, **offsets})
    return None if found is None else described(found)


@pytest.mark.parametrize("semantics", [COORDINATOR, SCALA])
def test_a_classic_group_is_what_its_last_value_says(semantics: Semantics) -> None:
    found = rebuilt(semantics, group(4, "m"), committed=[2, 9])
    assert (found.group_type, found.record_offset, len(found.members)) == (CLASSIC, 4, 1)
    assert rebuilt(semantics, tombstone(4)) is None


def test_under_coordinator_a_commit_behind_the_tombstone_makes_a_simple_group() -> None:
    assert rebuilt(COORDINATOR, tombstone(4), committed=[2]) is None
    assert rebuilt(COORDINATOR, tombstone(4), committed=[2], pending=[5]) == simple_group("g")
    assert rebuilt(COORDINATOR, tombstone(4), was_simple=True) == simple_group("g")


def test_a_commit_between_the_records_of_a_group_changes_nothing() -> None:
    found = rebuilt(COORDINATOR, epoch(4), committed=[2, 6], was_simple=True)
    assert (found.group_type, found.group_epoch, found.created_record_offset) == (CONSUMER, 7, 4)
    assert found.replay_warning is None


def test_scala_knows_classic_groups_and_those_that_offsets_make() -> None:
    assert rebuilt(SCALA, epoch(4)) is None
    assert rebuilt(SCALA, epoch(4), committed=[2]) == simple_group("g")
    assert rebuilt(SCALA, tombstone(4), committed=[2], pending=[3]) == simple_group("g")
    unloaded = rebuilt(SCALA, tombstone(4), pending=[3])
    assert unloaded.replay_warning == ("record offset 4: Unexpected unload of active group g")
    assert rebuilt(SCALA, pending=[3]) == simple_group("g")
