"""Numbers of groups or partitions by status."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_status import Status


def counted(statuses: pa.Array | pa.ChunkedArray) -> Mapping[str, int]:
    """The number of each status, worst first; null is not counted."""
    found = {
        row["values"]: row["counts"] for row in pc.value_counts(statuses.drop_null()).to_pylist()
    }
    return {status: found[status] for status in sorted(found, key=lambda one: -Status(one).rank)}
