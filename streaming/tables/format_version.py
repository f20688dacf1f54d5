"""What is said of tables that another release made."""

from __future__ import annotations

from typing import Final

from streaming.errors import ConfigurationError
from streaming.tables.schemas import FORMAT_VERSION

OLDEST_MIGRATABLE: Final = 2


def require_current(tables: str, found: str) -> None:
    """Refuse tables that this program does not read.

    Raises:
        ConfigurationError: their format version is another one; it says what to do.
    """
    if found == FORMAT_VERSION:
        return
    require_migratable(tables, found)
    raise ConfigurationError(
        f"{tables} has tables of format version {found}, this program reads {FORMAT_VERSION}: "
        f"`coordinator-state maintain --tables {tables}` migrates them, and `run` when it starts"
    )


def require_migratable(tables: str, found: str) -> None:
    """Refuse tables that are from before what can be migrated, or from a later release.

    Raises:
        ConfigurationError: they are.
    """
    has = f"{tables} has tables of format version {found}"
    if not found.isdecimal() or int(found) > int(FORMAT_VERSION):
        raise ConfigurationError(
            f"{has}, which a newer release made; this program knows {FORMAT_VERSION} at most: "
            "upgrade it, or name another folder"
        )
    if int(found) < OLDEST_MIGRATABLE:
        raise ConfigurationError(
            f"{has}, which cannot be migrated, since groups were replayed by other rules: load "
            "the log again, by `run` with a new folder for --tables and for --checkpoint"
        )
