"""Checks of the format version of tables that another release created."""

from __future__ import annotations

from typing import Final

from streaming.errors import ConfigurationError
from streaming.tables.schemas import FORMAT_VERSION

OLDEST_MIGRATABLE: Final = 2


def require_current(tables: str, found: str) -> None:
    """Refuse tables that this release cannot read.

    Raises:
        ConfigurationError: the tables have another format version; the message says what to do.
    """
    if found == FORMAT_VERSION:
        return
    require_migratable(tables, found)
    raise ConfigurationError(
        f"{tables} has tables of format version {found}, but this release reads {FORMAT_VERSION}: "
        f"start `run`, or `coordinator-state maintain --tables {tables}`, to migrate them"
    )


def require_migratable(tables: str, found: str) -> None:
    """Refuse tables that are too old for a migration, or were created by a newer release.

    Raises:
        ConfigurationError: the format version is too old or too new.
    """
    has = f"{tables} has tables of format version {found}"
    if not found.isdecimal() or int(found) > int(FORMAT_VERSION):
        raise ConfigurationError(
            f"{has}, which a newer release created; this release reads {FORMAT_VERSION} at most: "
            "upgrade coordinator-state, or name another folder with --tables"
        )
    if int(found) < OLDEST_MIGRATABLE:
        raise ConfigurationError(
            f"{has}, which cannot be migrated, because they replay groups by other rules: start "
            "`run` with new folders for --tables and --checkpoint"
        )
