"""Checks of the format version of tables that another release created."""

from __future__ import annotations

from typing import Final

from streaming.errors import ConfigurationError
from streaming.tables.schemas import FORMAT_VERSION

OLDEST_MIGRATABLE: Final = 9
"""That of release 0.1.0."""


def require_current(tables: str, format_version: str) -> None:
    """Refuse tables that this release cannot read.

    Raises:
        ConfigurationError: the tables have another format version; the message says what to do.
    """
    if format_version == FORMAT_VERSION:
        return
    require_migratable(tables, format_version)
    raise ConfigurationError(
        f"{tables} has tables of format version {format_version}, but this release reads "
        f"{FORMAT_VERSION}: start `run`, or `coordinator-state maintain --tables {tables}`, to "
        "migrate them"
    )


def require_migratable(tables: str, format_version: str) -> None:
    """Refuse tables that are too old for a migration, or were created by a newer release.

    Raises:
        ConfigurationError: the format version is too old or too new.
    """
    has = f"{tables} has tables of format version {format_version}"
    if not format_version.isdecimal() or int(format_version) > int(FORMAT_VERSION):
        raise ConfigurationError(
            f"{has}, which a newer release created; this release reads {FORMAT_VERSION} at most: "
            "upgrade coordinator-state, or name another folder with --tables"
        )
    if int(format_version) < OLDEST_MIGRATABLE:
        raise ConfigurationError(
            f"{has}, which cannot be migrated, because they are older than release 0.1.0: start "
            "`run` with a new folder for --tables"
        )
