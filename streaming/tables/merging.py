"""MERGE of a micro-batch's rows into a table, in memory or by delta-rs; see `Writer.merge`."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable

from streaming.tables.columns import column_of, columns_of
from streaming.tables.schemas import Table


def merged(
    target: pa.Table, table: Table, source: pa.Table, guard: str, deletes: str | None
) -> pa.Table:
    """The rows of a table after a MERGE: the table is as small as its keys are few.

    delta-rs's own MERGE (1.6) writes strings as views, by which pyarrow 26 cannot filter.
    """
    key = list(table.key)
    of_source = _places(source, key, "source", source[guard])
    of_target = _places(target, key, "target", target["record_offset"])
    # A join hashes all of its right side: that of a few groups is small.
    if "group_id" in key:
        ids = pc.unique(source["group_id"])
        of_target = of_target.filter(pc.is_in(of_target["group_id"], ids))
    found = of_source.join(of_target, key, join_type="left outer")
    is_newer = pc.greater_equal(found["source_offset"], found["target_offset"])
    found = found.filter(pc.fill_null(is_newer, fill_value=True))
    is_kept = np.ones(target.num_rows, dtype=np.bool_)
    is_kept[found["target"].drop_null().to_numpy()] = False
    rows = source.take(found["source"].sort())
    if deletes is not None:
        rows = rows.filter(pc.invert(pc.fill_null(rows[deletes], fill_value=False)))
    return pa.concat_tables([target.filter(pa.array(is_kept)), columns_of(table, rows)])


def merge_rows(
    opened: DeltaTable,
    table: Table,
    source: pa.Table,
    guard: str,
    deletes: str | None,
    replaced: Collection[int],
    keys: pa.Table | None,
    *,
    properties: CommitProperties,
) -> None:
    """delta-rs's own MERGE, which tells the change data feed of each row.

    `keys` are those of the table's rows, which only deletions need.
    """
    rows = source
    for field in table.schema:
        # A row that takes another one away has nothing but its key.
        column = column_of(source, field).cast(field.type)
        index, nullable = rows.schema.get_field_index(field.name), field.with_nullable(True)
        rows = (
            rows.append_column(nullable, column)
            if index < 0
            else rows.set_column(index, nullable, column)
        )
    if deletes is not None and keys is not None:
        # delta-rs (1.6) takes a row that neither comes nor finds another one for one of nulls.
        key = list(table.key)
        there = _places(rows, key, "row", rows[guard]).join(keys, key, join_type="left semi")
        is_there = pc.is_in(pa.array(np.arange(rows.num_rows)), there["row"].combine_chunks())
        is_deleted = pc.fill_null(rows[deletes], fill_value=False).combine_chunks()
        rows = rows.filter(pc.or_(pc.invert(is_deleted), is_there))
    values = {name: f"s.{name}" for name in table.schema.names}
    gone = "false" if deletes is None else f"coalesce(s.{deletes}, false)"
    are_theirs = f"t.log_partition IN ({', '.join(map(str, replaced)) or 'NULL'})"
    is_newer = f"(s.{guard} >= t.record_offset OR {are_theirs})"
    merging = opened.merge(
        rows,
        " AND ".join(f"t.{name} = s.{name}" for name in table.key),
        source_alias="s",
        target_alias="t",
        streamed_exec=False,
        commit_properties=properties,
    )
    merging = merging.when_matched_delete(f"{gone} AND {is_newer}")
    merging = merging.when_matched_update(values, f"NOT {gone} AND {is_newer}")
    if replaced:
        merging = merging.when_not_matched_by_source_delete(are_theirs)
    merging.when_not_matched_insert(values, f"NOT {gone}").execute()


def _places(rows: pa.Table, key: list[str], name: str, offsets: pa.ChunkedArray) -> pa.Table:
    """The keys of rows, the number of each and the record offset that counts."""
    numbers = pa.array(np.arange(rows.num_rows))
    return rows.select(key).append_column(name, numbers).append_column(f"{name}_offset", offsets)
