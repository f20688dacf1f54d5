"""The tables that a micro-batch writes before `load_progress`, and how it writes each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coordinator_state.apply.rows import GUARD_OFFSET
from streaming.tables.schemas import (
    COORDINATOR_RECORDS,
    GROUP_EVENTS,
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUP_RECORDS,
    GROUPS,
    OFFSET_COMMITS,
    PENDING_OFFSETS,
    QUARANTINE,
    Table,
)


class Merge(NamedTuple):
    """The columns that guide a MERGE: the guard offset, and whether a row only deletes."""

    guard: str
    deletes: str | None = None


MERGED: Mapping[Table, Merge] = {
    GROUP_OFFSETS: Merge(GUARD_OFFSET, "is_tombstone"),
    COORDINATOR_RECORDS: Merge("record_offset"),
    GROUPS: Merge(GUARD_OFFSET, "is_deleted"),
    GROUP_MEMBERS: Merge("record_offset", "is_deleted"),
}
"""The tables of keys that are changed by MERGE."""

HISTORY: Mapping[Table, str] = {
    OFFSET_COMMITS: "outcome_record_offset",
    GROUP_EVENTS: "record_offset",
    GROUP_RECORDS: "record_offset",
}
"""The tables of history. After a reload, the column says whether a table has a row already."""

WRITTEN_TABLES = (*MERGED, *HISTORY, QUARANTINE, PENDING_OFFSETS)
"""In the order in which the engine `driver` writes them."""
