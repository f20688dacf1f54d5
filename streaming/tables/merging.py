"""MERGE with delta-rs, for tables with a change data feed; see `Writer.merge`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable

from coordinator_state.apply.columns import columns_of, nullable
from streaming.tables.schemas import Table


@dataclass(frozen=True, slots=True)
class Merge:
    """A MERGE of source rows into a table; the attributes are the arguments of `Writer.merge`."""

    table: Table
    source: pa.Table
    guard: str | None
    deletes: str | None
    replaced: Collection[int]


def merge_rows(
    opened: DeltaTable, merge: Merge, keys: pa.Table | None, properties: CommitProperties
) -> None:
    """MERGE rows into a table; delta-rs writes each changed row to the change data feed.

    `keys` are the keys of the table's rows; only a MERGE with deletions needs them.
    """
    table, guard, deletes = merge.table, merge.guard, merge.deletes
    # A source row that deletes has only its key; its other columns are null.
    rows = columns_of(merge.source, nullable(table.schema))
    for name in {guard, deletes} - {None, *rows.column_names}:
        rows = rows.append_column(name, merge.source[name])
    if deletes is not None and keys is not None:
        # delta-rs 1.6 treats an unmatched row that is not inserted as all-null, so a deletion
        # without a row to delete is left out.
        key = list(table.key)
        numbered = rows.select(key).append_column("row", pa.array(np.arange(rows.num_rows)))
        matched = numbered.join(keys, key, join_type="left semi")["row"].combine_chunks()
        is_matched = pc.is_in(pa.array(np.arange(rows.num_rows)), matched)
        is_deleted = pc.fill_null(rows[deletes], fill_value=False).combine_chunks()
        rows = rows.filter(pc.or_(pc.invert(is_deleted), is_matched))
    values = {name: f"s.{name}" for name in table.schema.names}
    deletes_row = "false" if deletes is None else f"coalesce(s.{deletes}, false)"
    is_replaced = f"t.log_partition IN ({', '.join(map(str, merge.replaced)) or 'NULL'})"
    is_newer = "true" if guard is None else f"(s.{guard} >= t.record_offset OR {is_replaced})"
    merging = opened.merge(
        rows,
        " AND ".join(f"t.{name} = s.{name}" for name in table.key),
        source_alias="s",
        target_alias="t",
        streamed_exec=False,
        commit_properties=properties,
    )
    merging = merging.when_matched_delete(f"{deletes_row} AND {is_newer}")
    merging = merging.when_matched_update(values, f"NOT {deletes_row} AND {is_newer}")
    if merge.replaced:
        merging = merging.when_not_matched_by_source_delete(is_replaced)
    merging.when_not_matched_insert(values, f"NOT {deletes_row}").execute()
