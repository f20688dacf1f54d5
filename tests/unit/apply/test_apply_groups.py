"""What a micro-batch does to groups: where records, offsets and micro-batches meet."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from coordinator_state.apply.collected import GroupId, collect, record_rows
from coordinator_state.apply.groups import GroupChange
from coordinator_state.apply.rows import COORDINATOR_RECORD_ROW
from coordinator_state.replay.group_replay import described
from coordinator_state.replay.groups import EMPTY, NO_RECORD_OFFSET, STABLE, Group, simple_group
from coordinator_state.replay.offsets import Semantics
from tests.support.logs.log_rows import ABORT, LOG_PARTITION, commit, marker, record, table_of
from tests.support.logs.logs import group_record_value, group_value
from tests.support.tables.group_tables import COORDINATOR, SCALA, G, Tables

both = pytest.mark.parametrize("semantics", list(Semantics))


def test_the_last_record_of_a_key_has_its_value_as_json() -> None:
    rows = [record(number, group_value(["m1"], version=3)) for number in (10, 11)]
    collected = collect(table_of(rows))
    assert [one.is_last for one in collected.group_records] == [False, True]
    (last,) = record_rows(collected.group_records).to_pylist()
    assert (last["record_offset"], json.loads(last["value"])["protocol"]) == (11, "range")


def test_records_come_decoded_and_in_log_order() -> None:
    rows = [
        record(12, None),
        record(10, group_value(["m1"], version=3)),
        record(11, group_record_value(5), 5, memberId="m"),
        commit(13, 1),
    ]
    records = collect(table_of(rows)).group_records

    assert [one.record_offset for one in records] == [10, 11, 12]
    assert [one.key.record_type.name for one in records] == [
        "GroupMetadata",
        "ConsumerGroupMemberMetadata",
        "GroupMetadata",
    ]
    value, member, tombstone = records
    assert value.replayed.value is not None
    assert value.replayed.value["generation"] == 1
    assert value.value is not None
    assert value.value.version == 3
    assert (member.replayed.name, json.loads(member.record_key)) == (
        *("m", {"groupId": "g", "memberId": "m"}),
    )
    assert (tombstone.value, tombstone.replayed.value) == (None, None)
    stored = record_rows(records).to_pylist()
    # Only the last record of a key becomes a row.
    assert [(row["record_offset"], row["value_version"]) for row in stored] == [(11, 0), (12, None)]
    assert json.loads(stored[0]["value"])["subscribedTopicNames"] == ["t"]


def test_the_last_record_of_each_key_is_kept_tombstones_included() -> None:
    rows = [
        record(10, group_value()),
        record(11, group_value(["m1"])),
        record(12, group_value(), group="h"),
        record(13, None, group="h"),
        record(14, group_record_value(5), 5, memberId="m"),
        record(15, group_record_value(5), 5, memberId="n"),
    ]
    collected = collect(table_of(rows))
    table, counts = record_rows(collected.group_records), collected.counts

    assert table.schema == COORDINATOR_RECORD_ROW
    assert table["record_offset"].to_pylist() == [11, 13, 14, 15]
    assert table["is_tombstone"].to_pylist() == [False, True, False, False]
    assert (counts.applied[LOG_PARTITION], counts.superseded[LOG_PARTITION]) == (4, 2)


def test_a_key_is_readable_json_in_any_script() -> None:
    (only,) = collect(table_of([record(1, None, group="\u0433\u2603")])).group_records

    assert only.record_key == '{"group": "\u0433\u2603"}'


@both
def test_an_offset_commit_makes_a_simple_group(semantics: Semantics) -> None:
    tables = Tables(semantics)
    assert tables.apply_rows(commit(1, 1)) == {
        G: GroupChange(group=simple_group("g"), guard_offset=NO_RECORD_OFFSET)
    }
    # The next one finds it there.
    assert tables.apply_rows(commit(2, 2)) == {}


@both
def test_a_group_record_replaces_a_simple_group_and_keeps_it_through_commits(
    semantics: Semantics,
) -> None:
    tables = Tables(semantics)
    tables.apply_rows(commit(1, 1))
    tables.apply_rows(record(2, group_value(["m1"])), commit(3, 2))
    assert (tables.groups[G].state, tables.groups[G].record_offset) == (STABLE, 2)

    tables.apply_rows(commit(4, 3))
    tables.apply_rows(commit(5, None))
    assert tables.groups[G].record_offset == 2
    tables.apply_rows(record(6, group_value()))
    assert (tables.groups[G].state, tables.groups[G].record_offset) == (EMPTY, 6)


@pytest.mark.parametrize(("semantics", "after_tombstone"), [(COORDINATOR, None), (SCALA, "g")])
def test_a_group_tombstone_where_offsets_survive(
    semantics: Semantics, after_tombstone: str | None
) -> None:
    """`coordinator` forgets the group until its next commit, `scala` makes it simple."""
    tables = Tables(semantics)
    tables.apply_rows(commit(1, 1), record(2, group_value(["m1"])))
    changes = tables.apply_rows(record(3, None))

    group = None if after_tombstone is None else simple_group(after_tombstone)
    assert changes == {G: GroupChange(group=group, guard_offset=3)}

    tables.apply_rows(commit(4, 2))
    assert tables.groups == {G: simple_group("g")}


@both
def test_a_commit_behind_the_group_tombstone_in_one_micro_batch(semantics: Semantics) -> None:
    tables = Tables(semantics)
    tables.apply_rows(record(1, group_value(["m1"])))
    changes = tables.apply_rows(record(2, None), commit(3, 1))

    assert changes == {G: GroupChange(group=simple_group("g"), guard_offset=2)}


@pytest.mark.parametrize(
    ("semantics", "left"), [(COORDINATOR, {}), (SCALA, {G: simple_group("g")})]
)
def test_a_commit_before_the_group_tombstone_in_one_micro_batch(
    semantics: Semantics, left: dict[GroupId, Group]
) -> None:
    tables = Tables(semantics)
    tables.apply_rows(commit(1, 1), record(2, None))

    assert tables.groups == left


@pytest.mark.parametrize(
    ("semantics", "left"), [(COORDINATOR, {G: simple_group("g")}), (SCALA, {})]
)
def test_the_last_offset_goes(semantics: Semantics, left: dict[GroupId, Group]) -> None:
    tables = Tables(semantics)
    tables.apply_rows(commit(1, 1))
    tables.apply_rows(commit(2, None))

    assert tables.groups == left


@both
def test_a_waiting_offset_makes_the_group(semantics: Semantics) -> None:
    tables = Tables(semantics)
    tables.apply_rows(commit(1, 1, producer_id=9))
    assert tables.groups == {G: simple_group("g")}

    tables.apply_rows(marker(2, 9))
    assert tables.groups == {G: simple_group("g")}


@pytest.mark.parametrize(
    ("semantics", "left"), [(COORDINATOR, {G: simple_group("g")}), (SCALA, {})]
)
def test_an_aborted_transaction_takes_its_group_along_under_scala_only(
    semantics: Semantics, left: dict[GroupId, Group]
) -> None:
    tables = Tables(semantics)
    tables.apply_rows(commit(1, 1, producer_id=9))
    tables.apply_rows(marker(2, 9, ABORT))

    assert tables.groups == left


def test_under_scala_a_stored_offset_keeps_the_group_of_an_aborted_transaction() -> None:
    tables = Tables(SCALA)
    tables.apply_rows(commit(1, 1), commit(2, 2, producer_id=9))
    tables.apply_rows(marker(3, 9, ABORT))

    assert tables.groups == {G: simple_group("g")}


def test_under_scala_offsets_do_not_matter_to_a_group_with_a_record() -> None:
    tables = Tables(SCALA)
    tables.apply_rows(record(1, group_value(["m1"])), commit(2, 1))
    assert tables.apply_rows(commit(3, None)) == {}
    assert tables.groups[G].record_offset == 1


def test_groups_of_other_types_are_unknown_to_scala() -> None:
    value = group_record_value(3)
    consumer, scala = Tables(COORDINATOR), Tables(SCALA)
    for tables in (consumer, scala):
        tables.apply_rows(commit(1, 1), record(2, value, 3))

    assert described(consumer.groups[G]).group_type == "consumer"
    assert consumer.groups[G].record_offset == 2
    assert scala.groups == {G: simple_group("g")}

    consumer.apply_rows(record(3, None, 3))
    assert consumer.groups == {}


def test_a_commit_makes_a_simple_group_between_two_records() -> None:
    """The tombstone of a consumer group makes one of a simple group, and nothing of no group."""
    tables = Tables(COORDINATOR)
    tables.apply_rows(commit(1, 1), record(2, None, 8, memberId="m"), commit(3, 2))
    assert described(tables.groups[G]).group_type == "consumer"

    tables = Tables(COORDINATOR)
    tables.apply_rows(record(2, None, 8, memberId="m"), commit(3, 2))
    assert tables.groups == {G: simple_group("g")}


def test_a_record_that_changes_nothing_leaves_the_group_alone() -> None:
    tables = Tables(COORDINATOR)
    tables.apply_rows(record(1, group_value(["m1"])))

    assert tables.apply_rows(record(2, None, 9), commit(3, 1)) == {}
    assert tables.groups[G].record_offset == 1


def test_a_tombstone_of_another_type_is_a_warning_on_the_whole_group() -> None:
    tables = Tables(COORDINATOR)
    tables.apply_rows(record(1, group_value(["m1"])))
    before = described(tables.groups[G])
    tables.apply_rows(record(2, None, 5, memberId="m1"))
    after = described(tables.groups[G])

    warning = "record offset 2: Group g is not a consumer group"
    assert after == replace(before, replay_warning=warning)


def test_under_scala_a_group_with_a_tombstone_and_a_waiting_offset_has_a_warning() -> None:
    tables = Tables(SCALA)
    tables.apply_rows(record(1, None), commit(2, 1, producer_id=9))
    warned = replace(
        simple_group("g"),
        replay_warning="record offset 1: Unexpected unload of active group g",
    )
    assert tables.groups == {G: warned}

    tables.apply_rows(marker(3, 9))
    assert tables.groups == {G: simple_group("g")}
    tables.apply_rows(commit(4, 2, producer_id=9))
    tables.apply_rows(commit(5, None))
    assert tables.groups == {G: warned}
    tables.apply_rows(marker(6, 9, ABORT))
    assert tables.groups == {}
