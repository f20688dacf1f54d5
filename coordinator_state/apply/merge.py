"""The MERGE of a micro-batch's changes, in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import NOWHERE, columns_of, positions


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
    numbers = np.arange(target.num_rows)
    # All keys of the target are hashed, so filter them to the groups in `source` first.
    if "group_id" in key:
        ids = pc.unique(source["group_id"])
        numbers = np.flatnonzero(pc.is_in(target["group_id"], ids).to_numpy())
    columns = [*key, *(["record_offset"] if guard else [])]
    candidates = target.select(columns).take(pa.array(numbers))
    place = positions(source.select(list(key)), candidates.select(list(key)))
    is_taken = np.ones(source.num_rows, dtype=np.bool_)
    if guard is not None:
        of_target = candidates["record_offset"].take(pa.array(place, mask=place == NOWHERE))
        is_newer = pc.greater_equal(source[guard], of_target)
        is_taken = pc.fill_null(is_newer, fill_value=True).to_numpy()
    is_kept = np.ones(target.num_rows, dtype=np.bool_)
    is_kept[numbers[place[is_taken & (place != NOWHERE)]]] = False
    rows = source.filter(pa.array(is_taken))
    if deletes is not None:
        rows = rows.filter(pc.invert(pc.fill_null(rows[deletes], fill_value=False)))
    return pa.concat_tables([target.filter(pa.array(is_kept)), columns_of(rows, target.schema)])
