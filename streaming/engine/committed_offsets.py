"""The committed offsets as they were before a micro-batch: what its commits are compared with."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.tables.schemas import GROUP_OFFSETS

KEY = list(GROUP_OFFSETS.key)
_VALUES = ["committed_offset", "record_offset", "commit_timestamp_ms", "expire_timestamp_ms"]
_TYPES = {"log_partition": pa.int32(), "partition": pa.int32()}
_SCHEMA = pa.schema(
    [(name, _TYPES.get(name, pa.string())) for name in KEY]
    + [(name, pa.int64()) for name in _VALUES]
)


class CommittedOffsets:
    """A row for each key of `group_offsets`, kept up to date in memory.

    It saves each micro-batch a read of the whole table.
    """

    def __init__(self) -> None:
        self._rows = _SCHEMA.empty_table()

    @staticmethod
    def columns() -> list[str]:
        """The columns of `group_offsets` that are kept."""
        return [name.removesuffix("_ms") for name in _SCHEMA.names]

    def load(self, rows: pa.Table) -> None:
        """Begin with these rows of `group_offsets`, which have the columns of `columns()`."""
        arrays = {name: rows[name.removesuffix("_ms")] for name in _SCHEMA.names}
        for name in ("commit_timestamp_ms", "expire_timestamp_ms"):
            ms = pc.cast(arrays[name], pa.timestamp("ms", "UTC"), safe=False)
            arrays[name] = pc.cast(ms, pa.int64())
        self._rows = pa.table([arrays[f.name].cast(f.type) for f in _SCHEMA], schema=_SCHEMA)

    def forget(self, log_partitions: Collection[int]) -> None:
        """Drop what is known of log partitions."""
        theirs = pc.is_in(self._rows["log_partition"], pa.array(log_partitions, pa.int32()))
        self._rows = self._rows.filter(pc.invert(theirs))

    def before(self, keys: pa.Table) -> pa.Table:
        """What is known of the key of each row, in their order, null where nothing is."""
        numbered = keys.select(KEY).append_column("row", pa.array(np.arange(keys.num_rows)))
        # A join hashes all of its right side: that of a few groups is small.
        of_groups = pc.is_in(self._rows["group_id"], pc.unique(keys["group_id"]))
        known = self._rows.filter(of_groups)
        found = numbered.join(known, KEY, join_type="left outer").sort_by("row")
        return found.select(_VALUES)

    def update(self, changes: pa.Table) -> None:
        """Apply changes (`OFFSET_CHANGE_SCHEMA`) as the MERGE does, which is guarded by position.

        Offsets that another one with a greater record offset took the place of stay.
        """
        if not changes.num_rows:
            return
        stored = self.before(changes)["record_offset"]
        applies = pc.greater_equal(changes["position"], pc.fill_null(stored, -1))
        changes = changes.filter(applies)
        rest = self._rows.join(changes.select(KEY), KEY, join_type="left anti")
        new = changes.filter(pc.invert(changes["is_tombstone"])).select(_SCHEMA.names)
        self._rows = pa.concat_tables([rest.select(_SCHEMA.names), new.cast(_SCHEMA)])
