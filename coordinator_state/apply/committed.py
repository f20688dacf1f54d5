"""The committed offsets before and after a micro-batch."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import with_matches
from coordinator_state.apply.merge import merged
from coordinator_state.apply.rows import GROUP_OFFSET_ROW, GUARD_OFFSET, OFFSET_KEY

_KEY = list(OFFSET_KEY)
_VALUES = ["committed_offset", "record_offset", "commit_timestamp_ms", "expire_timestamp_ms"]
_MOST_CHUNKS = 32
COMMITTED_SCHEMA = pa.schema(
    [GROUP_OFFSET_ROW.field(name).with_nullable(True) for name in (*_KEY, *_VALUES)]
)
"""The columns of `group_offsets` that a micro-batch depends on."""


def values_before(committed: pa.Table, keys: pa.Table) -> pa.Table:
    """The committed values of each row's key, in the order of `keys`; null for an unknown key."""
    # All other keys are hashed, so filter them to the groups in `keys` first.
    of_groups = pc.is_in(committed["group_id"], pc.unique(keys["group_id"]))
    return with_matches(keys.select(_KEY), committed.filter(of_groups), _KEY).select(_VALUES)


def committed_after(committed: pa.Table, changes: pa.Table) -> pa.Table:
    """Apply changes (`OFFSET_CHANGE_SCHEMA`) to committed offsets."""
    after = merged(committed, changes, key=_KEY, guard=GUARD_OFFSET, deletes="is_tombstone")
    # Each MERGE adds a chunk. Over months of micro-batches they would slow every filter down.
    return after.combine_chunks() if after["group_id"].num_chunks > _MOST_CHUNKS else after


def without(rows: pa.Table, log_partitions: Iterable[int]) -> pa.Table:
    """The rows of all log partitions except these."""
    is_excluded = pc.is_in(rows["log_partition"], pa.array(log_partitions, pa.int32()))
    return rows.filter(pc.invert(is_excluded))
