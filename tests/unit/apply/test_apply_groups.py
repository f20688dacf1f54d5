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
from tests.support.logs.log_rows import (
    KEY,
    LOG_PARTITION,
    Row,
    commit,
    marker,
    record,
    table_of,
)
from tests.support.logs.logs import group_record_value, group_value
from tests.support.tables.plan_tables import PlanTables

COORDINATOR, SCALA = Semantics.COORDINATOR, Semantics.SCALA
G = (LOG_PARTITION, "g")


def test_records_come_decoded_and_in_log_order() -> None:
    rows = [
        record(12, None),
        record(10, group_value(["m1"], version=3)),
        record(11, group_record_value(5), 5, memberId="m"),
        commit(13, 1),
    ]
    value, member, tombstone = records = collect(table_of(rows)).group_records

    assert [decoded.record_offset for decoded in records] == [10, 11, 12]
    assert [decoded.is_last for decoded in records] == [False, True, True]
    assert [decoded.key.record_type.id for decoded in records] == [2, 5, 2]
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
        record(12, group_value(), group="\u0433\u2603"),
        record(13, None, group="\u0433\u2603"),
        record(14, group_record_value(5), 5, memberId="m"),
        record(15, group_record_value(5), 5, memberId="n"),
    ]
    collected = collect(table_of(rows))
    table, counts = record_rows(collected.group_records), collected.counts

    assert table.schema == COORDINATOR_RECORD_ROW
    assert table["record_offset"].to_pylist() == [11, 13, 14, 15]
    assert table["is_tombstone"].to_pylist() == [False, True, False, False]
    # Readable JSON in any script.
    assert table["record_key"].to_pylist()[1] == '{"group": "\u0433\u2603"}'
    assert (counts.applied[LOG_PARTITION], counts.superseded[LOG_PARTITION]) == (4, 2)


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


# --- the clients of pending offsets

Client = tuple[str | None, str | None]
FIRST, SECOND, THIRD = (OffsetKey("g", "t", partition) for partition in range(3))
A, B = ("client of a", "/127.0.0.1"), ("client of b", "/127.0.0.1")
UNKNOWN = (None, None)


def of_producer(record_offset: int, key: OffsetKey = KEY, producer_id: int = 9) -> Row:
    return commit(record_offset, record_offset, producer_id=producer_id, key=key)


CLIENTS: dict[str, tuple[list[list[Row]], dict[int, Client]]] = {
    "the member with the partition": (
        [[record(1, group_value(["a", "b"]))], [of_producer(2, FIRST), of_producer(3, SECOND)]],
        {2: A, 3: B},
    ),
    "the member at the record offset of the commit": (
        [
            [
                record(1, group_value(["a"])),
                of_producer(2),
                record(3, group_value(["b"])),
                of_producer(4, producer_id=8),
                record(5, group_value([])),
            ]
        ],
        {2: A, 4: B},
    ),
    "the same after the member has left": (
        [
            [record(1, group_value(["a", "b"])), of_producer(2)],
            [record(3, group_value([]))],
            [of_producer(4), of_producer(5, THIRD)],
        ],
        {4: A, 5: A},
    ),
    "the client of the newest commit that the producer has pending": (
        [
            [record(1, group_value(["a", "b"])), of_producer(2, FIRST), of_producer(3, SECOND)],
            [of_producer(4, THIRD)],
        ],
        {2: A, 3: B, 4: B},
    ),
    "the only member": ([[record(1, group_value(["b"])), of_producer(2, THIRD)]], {2: B}),
    "unknown without a candidate": (
        [[of_producer(1), record(2, group_value(["a", "b"])), of_producer(3, THIRD)]],
        {1: UNKNOWN, 3: UNKNOWN},
    ),
    "unknown in the next transaction of the producer": (
        [
            [record(1, group_value(["a", "b"])), of_producer(2), marker(3, 9)],
            [record(4, group_value([])), of_producer(5)],
        ],
        {5: UNKNOWN},
    ),
}


@pytest.mark.parametrize("semantics", list(Semantics))
@pytest.mark.parametrize(("micro_batches", "expected"), CLIENTS.values(), ids=CLIENTS)
def test_the_client_of_a_pending_offset(
    semantics: Semantics, micro_batches: list[list[Row]], expected: dict[int, Client]
) -> None:
    tables = PlanTables(semantics)
    for rows in micro_batches:
        tables.apply_rows(*rows)
    assert _clients(tables) == expected


def test_a_tombstone_clears_the_commit_and_its_client() -> None:
    tables = PlanTables(COORDINATOR)
    tables.apply_rows(record(1, group_value(["a", "b"])), of_producer(2))
    tables.apply_rows(record(3, group_value([])), commit(4, None), of_producer(5))
    assert _clients(tables) == {5: UNKNOWN}


def _clients(tables: PlanTables) -> dict[int, Client]:
    """The client of each pending offset by its record offset."""
    return {
        row["record_offset"]: (row["client_id"], row["client_host"])
        for row in tables.pending.to_pylist()
    }
