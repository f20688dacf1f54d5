"""The tables that a command reads, and the lines on stderr about them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NoReturn

from streaming.cli.options import exit_with_difference
from streaming.run.stderr import write_note, write_warning

if TYPE_CHECKING:
    from streaming.tables.reader import TableReader


def opened_tables(
    tables: str,
    as_of: str | datetime | None = None,
    *,
    consistent: bool = True,
    warns_if_stale: bool = False,
) -> TableReader:
    """Open tables; a note names the sources and the precision of rebuilt ones.

    With `warns_if_stale`, a warning says since when nothing was written, or how far the tables are
    behind.
    """
    from streaming.tables.reader import TableReader

    reader = TableReader(tables, as_of=as_of, consistent=consistent)
    note_if_rebuilt(reader)
    if warns_if_stale:
        from streaming.lag.freshness import freshness_notice

        if (notice := freshness_notice(reader)) is not None:
            write_warning(notice)
    return reader


def note_if_rebuilt(reader: TableReader) -> None:
    """Name the sources and the precision of rebuilt tables; nothing for a snapshot."""
    if reader.rebuilt_from is not None:
        write_note(f"as of {reader.moment.isoformat()}: {reader.rebuilt_from}")


def warn_if_loading(reader: TableReader) -> bool:
    """Warn if log partitions are not current; return whether none is."""
    from streaming.tables.load_state import current_count, loading_notice

    notice = loading_notice(reader.load_states, reader.log_partitions)
    if notice is None:
        return False
    write_warning(notice)
    return current_count(reader.load_states) == 0


def exit_if_nothing_is_current(reader: TableReader) -> None:
    """Warn if log partitions are not current; exit with status 1 if none is."""
    if warn_if_loading(reader):
        exit_with_difference()


def exit_if_unknown(reader: TableReader, group: str) -> None:
    """Exit with status 1 and a warning with similar names if a group does not exist."""
    from streaming.views.unknown_group import unknown_group

    if warning := unknown_group(reader, group):
        write_warning(warning)
        exit_with_difference()


def exit_without_rows(reader: TableReader, group: str, otherwise: str) -> NoReturn:
    """Exit with status 1; the warning is `otherwise` if the group exists."""
    exit_if_unknown(reader, group)
    write_warning(otherwise)
    exit_with_difference()
