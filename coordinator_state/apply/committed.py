"""The committed offsets before a micro-batch: its commits are compared with them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.merge import merged
from coordinator_state.apply.schemas import GROUP_OFFSET_ROW, GUARD_OFFSET, OFFSET_KEY

_KEY = list(OFFSET_KEY)
_VALUES = ["committed_offset", "record_offset", "commit_timestamp_ms", "expire_timestamp_ms"]
COMMITTED_SCHEMA = pa.schema(
    [GROUP_OFFSET_ROW.field(name).with_nullable(True) for name in (*_KEY, *_VALUES)]
)
"""The columns of `group_offsets` that a micro-batch depends on."""


def values_before(committed: pa.Table, keys: pa.Table) -> pa.Table:
    """The values of the key of each row, in the order of the rows; null for an unknown key."""
    numbered = keys.select(_KEY).append_column("row", pa.array(np.arange(keys.num_rows)))
    # A join hashes all of its right side: that of a few groups is small.
    of_groups = pc.is_in(committed["group_id"], pc.unique(keys["group_id"]))
    found = numbered.join(committed.filter(of_groups), _KEY, join_type="left outer")
    return found.sort_by("row").select(_VALUES)


def committed_after(committed: pa.Table, changes: pa.Table) -> pa.Table:
    """The committed offsets after changes (`OFFSET_CHANGE_SCHEMA`)."""
    return merged(committed, changes, key=_KEY, guard=GUARD_OFFSET, deletes="is_tombstone")


def without(rows: pa.Table, log_partitions: Iterable[int]) -> pa.Table:
    """Rows of other log partitions than these."""
    theirs = pc.is_in(rows["log_partition"], pa.array(log_partitions, pa.int32()))
    return rows.filter(pc.invert(theirs))
