"""The note about tables that were rebuilt from the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.run.stderr import write_note

if TYPE_CHECKING:
    from streaming.tables.reader import TableReader


def write_rebuilt_note(reader: TableReader) -> None:
    """Write the sources and the precision of rebuilt tables to stderr; nothing for a snapshot."""
    if reader.rebuilt_from is not None:
        write_note(f"as of {reader.moment.isoformat()}: {reader.rebuilt_from}")
