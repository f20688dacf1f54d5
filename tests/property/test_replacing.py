"""A MERGE that replaces a part of a table leaves the same rows as one that replaces all of it."""

from __future__ import annotations

import tempfile
from datetime import datetime, timedelta, timezone
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state.apply.columns import nullable
from coordinator_state.apply.merge import merged
from streaming.tables import delta, replacing
from streaming.tables.creation import create_table
from streaming.tables.schemas import GROUP_MEMBERS, GROUP_OFFSETS, Table
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import WriterEpoch

START = datetime(2026, 11, 22, tzinfo=timezone.utc)
GROUPS = ["a", "b", "it's", "back\\slash", "new\nline", "", "ü ☃", "%_--;"]
FLAGS = [pa.field("deletes", pa.bool_()), pa.field("guard", pa.int64())]

KEY = st.tuples(st.integers(0, 1), st.sampled_from(GROUPS), st.integers(0, 2))
CHANGE = st.tuples(st.sampled_from([False, False, True, None]), st.integers(0, 60))
"""Whether a row deletes, and its guard offset."""
CHANGES = st.dictionaries(KEY, CHANGE, min_size=1, max_size=8)
"""The rows of a MERGE by their keys."""
FILE = st.dictionaries(KEY, CHANGE, min_size=2, max_size=8)
ANY_SHARE = 100.0
"""However small a table is, a part of it is replaced."""
STEP = st.one_of(CHANGES, CHANGES, CHANGES, st.sampled_from(["compaction", "replaced"]))


def row_of(key: tuple[int, str, int], change: tuple[bool | None, int]) -> dict[str, Any]:
    (log_partition, group_id, number), (deletes, offset) = key, change
    row = {
        "log_partition": log_partition,
        "group_id": group_id,
        "record_offset": offset,
        "deletes": deletes,
        "guard": offset,
        # Of group_offsets
        "topic": "t",
        "partition": number,
        # Of group_members
        "member_id": f"m{number}",
    }
    if deletes:
        return row
    # Times are not always in the order of offsets.
    time = START + timedelta(milliseconds=offset if number else -offset)
    values = {"committed_offset": offset, "metadata": "", "commit_timestamp": time}
    owned = [{"topic": "t", "topic_id": None, "partition": number}]
    member = {"client_id": "c", "client_host": "h", "assignment": owned}
    nested = {"subscribed_topics": ["t", "u"], "subscription_bytes": b"\x00\xff"}
    return row | values | member | nested


def source_of(table: Table, changes: dict[Any, Any]) -> pa.Table:
    schema = pa.schema([*nullable(table.schema), *FLAGS])
    rows = [row_of(key, change) for key, change in changes.items()]
    return pa.Table.from_pylist(rows, schema=schema)


def listed(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr)


class Replacing:
    """A table and the rows it must have."""

    def __init__(self, tables: str, table: Table) -> None:
        self.tables, self.table = tables, table
        create_table(tables, table, {})
        self.writer = Writer.of(WriterEpoch.take(tables, "test", table))
        self.expected = table.schema.empty_table()

    def begin(self, changes: list[dict[Any, Any]]) -> None:
        """Append each group of rows as a file of its own."""
        known: set[Any] = set()
        for file in changes:
            kept = {key: (False, offset) for key, (_, offset) in file.items() if key not in known}
            known |= kept.keys()
            rows = source_of(self.table, kept).drop_columns(["deletes", "guard"])
            if rows.num_rows:
                self.writer.append(self.table, rows)
                rows = rows.cast(self.table.schema)
                self.expected = pa.concat_tables([self.expected, rows])

    def step(self, step: dict[Any, Any] | str) -> None:
        opened = DeltaTable(self.table.path(self.tables))
        if step == "compaction":
            opened.optimize.compact(commit_properties=self.writer.epoch.maintenance(opened))
            return
        changes = {((0, "a", 0)): (False, 7)} if isinstance(step, str) else step
        source = source_of(self.table, changes)
        target, replaced = self.expected, list[int]()
        if step == "replaced":
            target, replaced = target.filter(pc.field("log_partition") != 0), [0]
        columns = {"guard": "guard", "deletes": "deletes"}
        self.expected = merged(target, source, key=self.table.key, **columns)
        self.writer.merge(self.table, source, replaced=replaced, **columns)

    def check(self) -> None:
        opened = DeltaTable(self.table.path(self.tables))
        rows = delta.rows_of(opened, self.tables, self.table)
        assert listed(rows) == listed(self.expected)
        for uri in opened.file_uris():
            types = [str(field.type) for field in pq.read_schema(uri.removeprefix("file://"))]
            assert not [name for name in types if "view" in name], "not every reader knows views"


@settings(max_examples=40, deadline=None)
@given(
    table=st.sampled_from([GROUP_OFFSETS, GROUP_MEMBERS]),
    files=st.lists(FILE, min_size=3, max_size=6),
    steps=st.lists(STEP, min_size=2, max_size=8),
    most_share=st.sampled_from([0.5, ANY_SHARE, ANY_SHARE]),
)
def test_a_part_is_replaced_as_the_whole_table_would_be(
    table: Table, files: list[dict[Any, Any]], steps: list[Any], most_share: float
) -> None:
    large = mock.patch.multiple(
        replacing, SMALL_BYTES=0, _MOST_SHARE=most_share, _SEARCHED=most_share
    )
    with tempfile.TemporaryDirectory() as tables, large:
        replaced = Replacing(tables, table)
        replaced.begin(files)
        for step in steps:
            replaced.step(step)
            replaced.check()
