"""What a micro-batch appended that was not finished and does not come again."""

from __future__ import annotations

from collections.abc import Container

from streaming.tables import delta
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import APPEND_TABLES


def take_back(tables: str, progress: LoadProgress, spared: Container[str] = ()) -> None:
    """Take it away: rows behind what `load_progress` says is applied.

    What others did to the tables (`redecode`, upkeep) stays. Tables that are `spared` keep theirs.
    """
    versions = progress.table_versions
    next_offsets = {p: row.next_offset for p, row in progress.rows.items()}
    for table in APPEND_TABLES:
        is_newer = delta.current_version(tables, table) != versions[table.name]
        if is_newer and table.name not in spared:
            versions[table.name] = delta.delete_from(tables, table, next_offsets, others=True)
