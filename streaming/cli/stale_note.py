"""The warning about tables that `run` does not write any more, or that are far behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.run.stderr import write_warning

if TYPE_CHECKING:
    from streaming.tables.reader import TableReader


def write_stale_note(reader: TableReader) -> None:
    """Write to stderr since when nothing was written, or how far the tables are behind."""
    from streaming.lag.freshness import freshness_notice

    notice = freshness_notice(reader)
    if notice is not None:
        write_warning(notice)
