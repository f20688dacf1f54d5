"""The note about log partitions that are still loading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streaming.run.stderr import write_warning

if TYPE_CHECKING:
    from streaming.tables.reader import TableReader

EXIT_NOTHING_CURRENT: Final = 1


def write_loading_note(reader: TableReader) -> bool:
    """Write a line to stderr if log partitions are not current; return whether none is."""
    from streaming.tables.load_state import current_count, loading_notice

    notice = loading_notice(reader.load_states, reader.log_partitions)
    if notice is None:
        return False
    write_warning(notice)
    return current_count(reader.load_states) == 0
