"""Rows of `group_events`: order, names of topics, transactions that hung."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa

from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_value
from coordinator_state.replay.modern_groups import Part
from coordinator_state.replay.offsets import Semantics
from coordinator_state.wire.primitives import uuid_text
from tests.support.logs.group_log import T, record_type, value
from tests.support.logs.log_rows import NOW_MS, commit, marker, record, table_of
from tests.support.tables.offset_tables import OTHER
from tests.support.tables.plan_tables import PlanTables

Row = dict[str, Any]


TOPIC_ID = uuid_text(UUID(int=11))


def told(rows: pa.Table) -> list[Row]:
    tables = PlanTables(Semantics.COORDINATOR, topic_names={TOPIC_ID: "orders"})
    tables.apply(rows, end=0)
    return tables.events


def test_a_transaction_that_hung_is_told_when_it_ends_once_for_each_group() -> None:
    late = NOW_MS + 90_000
    rows = table_of(
        [
            commit(1, 1, producer_id=7),
            commit(2, 1, producer_id=8),
            commit(3, 2, producer_id=7, key=OTHER),
            {**marker(4, 7), "record_timestamp_ms": late},
            {**marker(5, 8), "record_timestamp_ms": NOW_MS + 100},
        ]
    )
    (event,) = told(rows)
    assert (event["event"], event["record_offset"], event["producer_id"]) == (
        *("transaction_hung", 4),
        7,
    )
    assert (event["outcome"], event["duration_ms"]) == ("committed", 89_999)
    assert event["record_timestamp_ms"] == late


def group_record(record_offset: int, part: Part, fields: Row, **key: str) -> Row:
    number = record_type("consumer", part)
    raw_value = encode_value(RECORD_TYPES[number], 0, value(number, **fields))
    return record(record_offset, raw_value, number, **key)


def test_events_of_one_record_are_numbered_and_topics_have_names() -> None:
    partitions = [{"topicId": T, "partitions": [3]}]
    rows = table_of(
        [
            group_record(1, Part.MEMBER, {}, memberId="m"),
            group_record(2, Part.GROUP, {"epoch": 2}),
            group_record(3, Part.TARGET, {"topicPartitions": partitions}, memberId="m"),
        ]
    )
    events = told(rows)
    assert [(e["record_offset"], e["event_number"], e["event"]) for e in events] == [
        (1, 0, "group_created"),
        (1, 1, "member_joined"),
        (2, 0, "rebalance"),
        (3, 0, "assignment_changed"),
    ]
    assert events[-1]["assignment_after"] == [
        {"topic": "orders", "topic_id": TOPIC_ID, "partition": 3}
    ]


def test_offsets_of_one_marker_are_numbered_by_partition_not_by_order_of_commits() -> None:
    later = [commit(4, 5, producer_id=7, key=OTHER), commit(5, 5, producer_id=7)]
    before = [commit(1, 10), commit(2, 10, key=OTHER), *later]
    one_micro_batch = told(table_of([*before, marker(6, 7)]))
    two_micro_batches = PlanTables(Semantics.COORDINATOR)
    two_micro_batches.apply(table_of(before), end=0)
    two_micro_batches.apply(table_of([marker(6, 7)]), end=0)
    for events in (one_micro_batch, two_micro_batches.events):
        found = [(e["record_offset"], e["event_number"], e["partition"]) for e in events]
        assert found == [(6, 0, 0), (6, 1, 1)]


def test_commits_are_compared_with_the_offsets_before_the_micro_batch() -> None:
    tables = PlanTables(Semantics.COORDINATOR)
    for rows, expected in (
        (table_of([commit(1, 10)]), []),
        (table_of([commit(2, 20)]), []),
        (table_of([commit(3, 5), commit(4, 30)]), [("offset_rewind", 20, 5)]),
        (table_of([commit(5, None)]), [("offset_deleted", 30, None)]),
        (table_of([commit(6, 1)]), []),
    ):
        events = tables.apply(rows, end=0).group_events.to_pylist()
        found = [(e["event"], e["offset_before"], e["offset_after"]) for e in events]
        assert found == expected
