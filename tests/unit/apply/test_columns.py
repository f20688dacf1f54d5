"""Columns as the tables store them: declared by the classes of rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import TypedDict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.apply import columns
from coordinator_state.apply.columns import (
    TIMESTAMP,
    Int32,
    columns_of,
    distinct_keys,
    in_ms,
    schema_in_ms,
    schema_of,
    stored_names,
    timestamps,
    with_matches,
)
from tests.support.logs.log_rows import NOW_MS


class Sent(TypedDict):
    sink: str
    sent_at: datetime | None


@dataclass
class Row:
    group_id: str
    partition: Int32 | None
    record_offset: int
    is_tombstone: bool
    value: float | None
    raw_key: bytes | None
    record_timestamp: datetime | None
    topics: list[str] | None
    versions: dict[str, int] | None
    sent: list[Sent]
    day: date | None


def test_a_class_declares_the_columns_of_its_table() -> None:
    sent = pa.struct([pa.field("sink", pa.string(), nullable=False), ("sent_at", TIMESTAMP)])
    assert schema_of(Row) == pa.schema(
        [
            pa.field("group_id", pa.string(), nullable=False),
            ("partition", pa.int32()),
            pa.field("record_offset", pa.int64(), nullable=False),
            pa.field("is_tombstone", pa.bool_(), nullable=False),
            ("value", pa.float64()),
            ("raw_key", pa.binary()),
            ("record_timestamp", pa.timestamp("us", tz="UTC")),
            ("topics", pa.list_(pa.string())),
            ("versions", pa.map_(pa.string(), pa.int64())),
            pa.field("sent", pa.list_(sent), nullable=False),
            ("day", pa.date32()),
        ]
    )


def test_rows_of_a_micro_batch_have_times_in_milliseconds_and_no_day() -> None:
    schema = schema_in_ms(Row)

    assert schema.field("record_timestamp_ms") == pa.field("record_timestamp_ms", pa.int64())
    assert set(schema_of(Row).names) - set(schema.names) == {"record_timestamp", "day"}


def test_times_and_days_are_made_from_milliseconds_and_missing_columns_are_null() -> None:
    rows = pa.table({"group_id": ["g"], "record_timestamp_ms": [86_400_000 + 1]})
    wanted = pa.schema(
        [schema_of(Row).field(name) for name in ("record_timestamp", "day", "value")]
    )

    (row,) = columns_of(rows, wanted).to_pylist()

    assert row["record_timestamp"].isoformat() == "1970-01-02T00:00:00.001000+00:00"
    assert row["day"] == date(1970, 1, 2)
    assert row["value"] is None


def test_a_time_that_a_reader_cannot_show_becomes_the_nearest_one() -> None:
    column = timestamps(pa.chunked_array([[-(2**63), 0, None, 2**63 - 1]]))

    years = [None if at is None else at.year for at in column.to_pylist()]
    assert years == [1, 1970, None, 9999]


def test_rows_of_a_table_are_read_back_in_milliseconds() -> None:
    schema = pa.schema(
        [schema_in_ms(Row).field(name) for name in ("group_id", "record_timestamp_ms")]
    )
    rows = pa.table({"group_id": ["g", "h"], "record_timestamp_ms": [NOW_MS, None]}, schema)
    stored = pa.schema([schema_of(Row).field(name) for name in ("group_id", "record_timestamp")])

    assert stored_names(schema) == stored.names
    assert in_ms(columns_of(rows, stored), schema).equals(rows)


_PLACES = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0, 1, -1, None])), max_size=12
)


@given(_PLACES, _PLACES, st.integers(1, 3))
def test_rows_get_the_columns_of_the_last_other_row_with_their_key(
    keys: list[tuple[str | None, int | None]],
    others: list[tuple[str | None, int | None]],
    chunk_rows: int,
) -> None:
    """Also of a key with nulls, and if the rows are in several chunks."""
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32())])
    rows, other_rows = (
        pa.Table.from_batches(
            pa.table([[key[n] for key in places] for n in (0, 1)], schema=schema).to_batches(
                chunk_rows
            ),
            schema,
        )
        for places in (keys, others)
    )
    number_by_key = {key: number for number, key in enumerate(others)}
    numbered = other_rows.append_column("number", pa.array(range(len(others)), pa.int64()))
    matched = with_matches(rows, numbered, ["topic", "partition"])
    assert matched.select(schema.names).equals(rows)
    assert matched["number"].to_pylist() == [number_by_key.get(key) for key in keys]


def test_many_distinct_values_in_many_columns_do_not_overflow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columns, "_MOST_KEYS", 10)
    values = [[n % 3, n % 5, n % 2] for n in range(60)]
    keys = pa.table([list(column) for column in zip(*values, strict=True)], names=["a", "b", "c"])
    ids = distinct_keys(keys)
    assert sorted({*ids}) == list(range(30))
    assert len({(*value, int(key)) for value, key in zip(values, ids, strict=True)}) == 30


def test_equal_texts_of_chunks_with_dictionaries_of_their_own_are_equal() -> None:
    chunks = [pa.array(texts).dictionary_encode() for texts in (["a", "b"], ["b", None])]
    assert distinct_keys(pa.table({"topic": pa.chunked_array(chunks)})).tolist() == [0, 1, 1, 2]
