"""The times since which groups have their status, from the changes that `run` recorded."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streaming.tables.reader import TableReader
from streaming.tables.schemas import STATUS_CHANGES

_COLUMNS = ["group_id", "topic", "changed_at", "status_after"]
_MOST_NAMED = 1_000
"""For more groups, the changes of all groups are read."""


def standing_since(reader: TableReader, statuses: pa.Table, at: datetime) -> Mapping[str, datetime]:
    """The time of the last recorded change of each group, if it was one to the group's status.

    Args:
        reader: the snapshot.
        statuses: `group_id` and `status` of the groups.
        at: the moment of the statuses; later changes do not count.
    """
    wanted: list[tuple[str, str, Any]] = [("day", "<=", at.date()), ("changed_at", "<=", at)]
    if statuses.num_rows <= _MOST_NAMED:
        wanted.append(("group_id", "in", statuses["group_id"].to_pylist()))
    changes = reader.read(STATUS_CHANGES.name, _COLUMNS, wanted)
    changes = changes.filter(pc.is_null(changes["topic"])).sort_by("changed_at")
    last = changes.group_by("group_id", use_threads=False).aggregate(
        # A deletion is a change to null.
        [
            ("status_after", "last", pc.ScalarAggregateOptions(skip_nulls=False)),
            ("changed_at", "last"),
        ]
    )
    rows = statuses.select(["group_id", "status"]).join(last, "group_id", join_type="inner")
    rows = rows.filter(pc.equal(rows["status"], rows["status_after_last"]))
    columns = rows["group_id"].to_pylist(), rows["changed_at_last"].to_pylist()
    return dict(zip(*columns, strict=True))
