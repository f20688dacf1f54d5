"""What a micro-batch does to groups: where records, offsets and micro-batches meet.

`tests/property/test_apply_plan.py` compares groups, members and the clients of pending offsets with
a replay record by record.
"""

from __future__ import annotations

import json

import pytest

from coordinator_state.apply.collected import collect, record_rows
from coordinator_state.apply.group_rows import group_rows
from coordinator_state.apply.groups import GroupChange
from coordinator_state.apply.rows import COORDINATOR_RECORD_ROW
from coordinator_state.replay.group_replay import described
from coordinator_state.replay.groups import NO_RECORD_OFFSET, simple_group
from coordinator_state.replay.offsets import OffsetKey, Semantics
from tests.support.logs.log_rows import LOG_PARTITION, Row, commit, record, table_of
from tests.support.logs.logs import group_record_value, group_value
from tests.support.tables.plan_tables import PlanTables

COORDINATOR, SCALA = Semantics.COORDINATOR, Semantics.SCALA
G = (LOG_PARTITION, "g")


def test_records_are_decoded_and_the_last_one_of_each_key_becomes_a_row() -> None:
    rows = [
        record(12, None),
        record(10, group_value(["m1"], version=3)),
        record(11, group_record_value(5), 5, memberId="m"),
        commit(13, 1),
        record(14, group_record_value(5), 5, memberId="n"),
        record(15, None, group="\u0433\u2603"),
    ]
    collected = collect(table_of(rows))
    value, member, tombstone, *_ = records = collected.group_records

    assert [decoded.record_offset for decoded in records] == [10, 11, 12, 14, 15]
    assert [decoded.is_last for decoded in records] == [False, True, True, True, True]
    assert [decoded.key.record_type.id for decoded in records] == [2, 5, 2, 5, 2]
    assert value.replayed.value is not None
    assert value.replayed.value["generation"] == 1
    assert value.value is not None
    assert value.value.version == 3
    assert member.replayed.name == "m"
    assert json.loads(member.record_key) == {"groupId": "g", "memberId": "m"}
    assert (tombstone.value, tombstone.replayed.value) == (None, None)

    table = record_rows(records)
    assert table.schema == COORDINATOR_RECORD_ROW
    assert table["record_offset"].to_pylist() == [11, 12, 14, 15]
    assert table["is_tombstone"].to_pylist() == [False, True, False, True]
    assert table["value_version"].to_pylist() == [0, None, 0, None]
    assert json.loads(table["value"][0].as_py())["subscribedTopicNames"] == ["t"]
    # Readable JSON in any script.
    assert table["record_key"].to_pylist()[-1] == '{"group": "\u0433\u2603"}'
    counts = collected.counts
    assert (counts.applied[LOG_PARTITION], counts.superseded[LOG_PARTITION]) == (4, 1)


@pytest.mark.parametrize("semantics", list(Semantics))
def test_an_offset_commit_makes_a_simple_group(semantics: Semantics) -> None:
    tables = PlanTables(semantics)
    assert tables.apply_rows(commit(1, 1)) == {
        G: GroupChange(group=simple_group("g"), guard_offset=NO_RECORD_OFFSET)
    }
    # The next one finds it there.
    assert tables.apply_rows(commit(2, 2)) == {}


@pytest.mark.parametrize(
    ("semantics", "rows"),
    [
        (SCALA, [commit(2, 1)]),
        (SCALA, [commit(2, 1), commit(3, None)]),
        (COORDINATOR, [record(2, None, 9), commit(3, 1)]),
    ],
)
def test_rows_that_change_nothing_leave_the_group_alone(
    semantics: Semantics, rows: list[Row]
) -> None:
    tables = PlanTables(semantics)
    tables.apply_rows(record(1, group_value(["m1"])))
    assert tables.apply_rows(*rows) == {}
    assert tables.groups[G].record_offset == 1


def test_a_row_of_a_deleted_group_has_its_id_and_guard_only() -> None:
    """`property/test_past.py` compares the rows of groups and members with the loader."""
    tables = PlanTables(COORDINATOR)
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


def test_a_pending_offset_has_the_client_of_its_owner_at_the_commit_and_keeps_it() -> None:
    """Within a micro-batch, and after the owner has left; without an owner it has none."""
    tables = PlanTables(COORDINATOR)
    unowned = OffsetKey("g", "u", 0)
    tables.apply_rows(
        commit(1, 1, producer_id=9),
        record(2, group_value(["a", "b"])),
        commit(3, 1, producer_id=7),
        commit(4, 1, producer_id=9, key=unowned),
        record(5, group_value(["c"])),
        commit(6, 1, producer_id=8),
    )
    tables.apply_rows(record(7, group_value([])))
    clients = {row["record_offset"]: row["client_id"] for row in tables.pending.to_pylist()}
    assert clients == {1: None, 3: "client of a", 4: None, 6: "client of c"}


def test_a_large_open_transaction_takes_no_time_for_each_of_its_pairs() -> None:
    """Of 100,000 partitions. Compared pair by pair, they would take longer than a test may."""
    tables, count = PlanTables(COORDINATOR), 100_000
    rows = [commit(n + 1, n, producer_id=9, key=OffsetKey("g", "t", n)) for n in range(count)]
    tables.apply_rows(record(0, group_value(["a"])), *rows)
    assert tables.pending.num_rows == count
    assert tables.pending["client_id"].null_count == count - 1
