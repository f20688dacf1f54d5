"""Bases: copies of snapshots, from which later moments are rebuilt with the history.

A base is a small tables folder of its own, `TABLES/bases/<moment>`: plain Delta tables that
`TableReader` and DuckDB open. Its `load_progress` is written last; a base without it was
interrupted and is ignored. A base is a pure copy of a committed snapshot, and its name is the
moment of that snapshot. Each write replaces all rows of a table, so a second attempt writes the
same. Two writers at once must be kept apart (`base_maintenance.make_base`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileSelector, FileType

from streaming.tables import delta
from streaming.tables.file_systems import file_system
from streaming.tables.schemas import LOAD_PROGRESS, Table

FOLDER: Final = "bases"
_NAME: Final = "%Y%m%dT%H%M%S.%fZ"
_FIRST_WRITTEN: Final = 1
"""The first version of each table with rows: it is created empty."""


@dataclass(frozen=True, slots=True, order=True)
class BasePlace:
    """A base of a tables folder, by the moment of its snapshot."""

    moment: datetime
    tables: str

    @property
    def name(self) -> str:
        """The path of the base in the tables folder."""
        return f"{FOLDER}/{self.moment:{_NAME}}"

    @property
    def path(self) -> str:
        """The folder of the base."""
        return f"{self.tables.rstrip('/')}/{self.name}"

    @property
    def is_complete(self) -> bool:
        """Whether all tables of the base are written.

        Raises:
            TablesUnavailable: the folder cannot be read.
        """
        entry = f"{self.name}/{LOAD_PROGRESS.name}/_delta_log/{_FIRST_WRITTEN:020}.json"
        with delta.reading(self.path):
            info = file_system(self.tables).get_file_info(entry)
        return bool(info.type is FileType.File)

    def read(self, table: Table, where: pc.Expression | None = None) -> pa.Table:
        """The rows of a table of the base.

        Raises:
            TablesUnavailable: the table cannot be read.
        """
        return delta.read(self.path, table, where=where)

    def count(self, table: Table) -> int:
        """The number of rows of a table of the base, from the statistics of its files.

        Raises:
            TablesUnavailable: the table cannot be read.
        """
        return delta.counted_rows(delta.open_table(self.path, table))


def bases_of(tables: str) -> list[BasePlace]:
    """The bases of a folder, oldest first; some may be incomplete.

    Raises:
        TablesUnavailable: the folder cannot be read.
    """
    with delta.reading(f"{tables.rstrip('/')}/{FOLDER}"):
        entries = file_system(tables).get_file_info(FileSelector(FOLDER, allow_not_found=True))
    moments = [_moment(entry.path.rstrip("/").rpartition("/")[2]) for entry in entries]
    return sorted(BasePlace(moment, tables) for moment in moments if moment is not None)


def _moment(name: str) -> datetime | None:
    try:
        return datetime.strptime(name, _NAME).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
