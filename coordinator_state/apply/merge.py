"""The MERGE of a micro-batch's changes, in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import columns_of


def merged(
    target: pa.Table,
    source: pa.Table,
    *,
    key: Sequence[str],
    guard: str | None,
    deletes: str | None,
) -> pa.Table:
    """The rows of `target` after a MERGE of `source`, which has each key at most once.

    A source row is skipped if the target has a newer row of its key. Otherwise it replaces or
    deletes the row of its key, or is inserted.

    Args:
        target: rows, with a `record_offset` if there is a guard.
        source: changes. Columns of the target that they lack become null.
        key: the key columns, without nulls.
        guard: the column of the source to compare with the target's `record_offset`; without it
            every source row is taken.
        deletes: the column of the source that marks deletions; None if there are none.
    """
    if not source.num_rows:
        return target
    of_source = _keys(source, key, "source", guard)
    of_target = _keys(target, key, "target", guard and "record_offset")
    # A join hashes its whole right side, so filter it to the groups in `source` first.
    if "group_id" in key:
        ids = pc.unique(source["group_id"])
        of_target = of_target.filter(pc.is_in(of_target["group_id"], ids))
    pairs = of_source.join(of_target, list(key), join_type="left outer")
    if guard is not None:
        is_newer = pc.greater_equal(pairs["source_offset"], pairs["target_offset"])
        pairs = pairs.filter(pc.fill_null(is_newer, fill_value=True))
    is_kept = np.ones(target.num_rows, dtype=np.bool_)
    is_kept[pairs["target"].drop_null().to_numpy()] = False
    rows = source.take(pairs["source"].sort())
    if deletes is not None:
        rows = rows.filter(pc.invert(pc.fill_null(rows[deletes], fill_value=False)))
    return pa.concat_tables([target.filter(pa.array(is_kept)), columns_of(rows, target.schema)])


def _keys(rows: pa.Table, key: Sequence[str], name: str, offset: str | None) -> pa.Table:
    """The key of each row, its row number, and the record offset to compare, if there is one."""
    numbers = pa.array(np.arange(rows.num_rows))
    keys = rows.select(list(key)).append_column(name, numbers)
    return keys if offset is None else keys.append_column(f"{name}_offset", rows[offset])
