"""The ranges of log partitions that a micro-batch has read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Report = Mapping[str, Any]
"""A `progress` row of the source: the range that was read of a log partition."""


def joined(reports: Sequence[Report]) -> Report:
    """The reports of successive ranges of one log partition as one."""
    summed = ("records_read", "records_superseded", "bytes_read")
    return {
        **reports[-1],
        "from_offset": reports[0]["from_offset"],
        **{name: sum(report[name] for report in reports) for name in summed},
    }


def is_below(rows: pa.Table, column: str, bounds: Mapping[int, int]) -> pa.ChunkedArray:
    """Whether each row's record offset in the column is below the bound of its log partition."""
    places = pc.index_in(rows["log_partition"], value_set=pa.array(list(bounds), pa.int32()))
    bound = pc.take(pa.array(list(bounds.values()), pa.int64()), places)
    return pc.fill_null(pc.less(rows[column], bound), False)
