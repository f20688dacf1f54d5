"""What a micro-batch does to groups: where records, offsets and micro-batches meet."""

from __future__ import annotations

import json

import pytest

from coordinator_state.apply.collected import collect, record_rows
from coordinator_state.apply.group_rows import group_rows
from coordinator_state.apply.groups import GroupChange
from coordinator_state.apply.rows import COORDINATOR_RECORD_ROW
from coordinator_state.replay.group_replay import described
from coordinator_state.replay.groups import NO_RECORD_OFFSET, simple_group
from coordinator_state.replay.offsets import Semantics
from tests.support.logs.log_rows import LOG_PARTITION, commit, record, table_of
from tests.support.logs.logs import group_record_value, group_value
from tests.support.tables.plan_tables import PlanTables

G = (LOG_PARTITION, "g")
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
    tables = PlanTables(semantics)
    assert tables.apply_rows(commit(1, 1)) == {
        G: GroupChange(group=simple_group("g"), guard_offset=NO_RECORD_OFFSET)
    }
    # The next one finds it there.
    assert tables.apply_rows(commit(2, 2)) == {}


def test_under_scala_offsets_do_not_matter_to_a_group_with_a_record() -> None:
    tables = PlanTables(Semantics.SCALA)
    tables.apply_rows(record(1, group_value(["m1"])), commit(2, 1))
    assert tables.apply_rows(commit(3, None)) == {}
    assert tables.groups[G].record_offset == 1


def test_a_record_that_changes_nothing_leaves_the_group_alone() -> None:
    tables = PlanTables(Semantics.COORDINATOR)
    tables.apply_rows(record(1, group_value(["m1"])))

    assert tables.apply_rows(record(2, None, 9), commit(3, 1)) == {}
    assert tables.groups[G].record_offset == 1


def test_a_row_of_a_deleted_group_has_its_id_and_guard_only() -> None:
    """`property/test_past.py` compares the rows of groups and members with the loader."""
    tables = PlanTables(Semantics.COORDINATOR)
    changes = tables.apply_rows(
        record(1, group_value(["m1", "m2"], generation=4)),
        record(3, group_record_value(3), 3, groupId="consumer"),
        record(4, None, group="gone"),
    )
    present = {i: described(state) for i, state in tables.groups.items()}
    rows = {row["group_id"]: row for row in group_rows(changes, present).to_pylist()}

    assert {name: value for name, value in rows["gone"].items() if value is not None} == {
        "log_partition": LOG_PARTITION,
        "group_id": "gone",
        "is_deleted": True,
        "guard_offset": 4,
    }
    kept = {i: (row["is_deleted"], row["guard_offset"]) for i, row in rows.items() if i != "gone"}
    assert kept == {"g": (False, 1), "consumer": (False, 3)}
