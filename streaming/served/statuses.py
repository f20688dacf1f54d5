"""Numbers of groups or partitions by status."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_status import Status


def counted(statuses: pa.ChunkedArray) -> Mapping[str, int]:
    """The number of each status, worst first."""
    counts = pc.value_counts(statuses).to_pylist()
    return worst_first({row["values"]: row["counts"] for row in counts})


def worst_first(counts: Mapping[str, int]) -> Mapping[str, int]:
    """Numbers by status, the worst status first."""
    return dict(sorted(counts.items(), key=lambda item: -Status(item[0]).rank))
