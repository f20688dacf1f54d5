"""Bases: copies of snapshots, from which later moments are rebuilt with the history.

A base is a small tables folder of its own, `TABLES/bases/<moment>`: plain Delta tables that
`TableReader` and DuckDB open. Its `load_progress` is written last; a base without it was
interrupted and is ignored. A base is a pure copy of a committed snapshot, and its name is the
moment of that snapshot. Each write replaces all rows of a table, so a second attempt writes the
same. Two writers at once must be kept apart (`base_maintenance.make_base`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, write_deltalake
from pyarrow.dataset import Dataset
from pyarrow.fs import FileSelector, FileType

from streaming.clock import earliest_now
from streaming.errors import TablesUnavailable
from streaming.tables import delta
from streaming.tables.creation import create_table
from streaming.tables.file_systems import file_system
from streaming.tables.load_state import is_reloading
from streaming.tables.locations import local_path, sync_file
from streaming.tables.moments import MOMENT, CommitMoments
from streaming.tables.schemas import KEY_TABLES, LOAD_PROGRESS, STATE_LOADING, Table
from streaming.tables.writer_epoch import WriterEpoch

FOLDER: Final = "bases"
_NAME: Final = "%Y%m%dT%H%M%S.%fZ"
_FIRST_WRITTEN: Final = 1
"""The first version of each table with rows: it is created empty."""
_WRITTEN_WITHIN: Final = timedelta(hours=1)


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

    @property
    def committed_at(self) -> datetime:
        """When the base was written, by the clock of the writer.

        Raises:
            TablesUnavailable: the table cannot be read.
        """
        version = delta.current_version(self.path, LOAD_PROGRESS)
        committed_at = CommitMoments(LOAD_PROGRESS.path(self.path), version).committed_at(version)
        return committed_at or self.moment

    def read(self, table: Table, where: pc.Expression | None = None) -> pa.Table:
        """The rows of a table of the base.

        Raises:
            TablesUnavailable: the table cannot be read.
        """
        return delta.read(self.path, table, where=where)

    def progress(self) -> tuple[pa.Table, Mapping[str, str]]:
        """The rows and the properties of `load_progress` of the base.

        Raises:
            TablesUnavailable: the table cannot be read.
        """
        opened = delta.open_table(self.path, LOAD_PROGRESS)
        rows = delta.rows_of(opened, self.path, LOAD_PROGRESS)
        return rows, opened.metadata().configuration

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


def can_be_base(progress: pa.Table) -> bool:
    """Whether a snapshot, by its `load_progress`, is a base.

    While a log partition is loading, records are read whose timestamps may be of any time.
    """
    rows = progress.select(["state", "reload_reason", "reloaded_at"]).to_pylist()
    return bool(rows) and not any(
        row["state"] == STATE_LOADING or is_reloading(row["reload_reason"], row["reloaded_at"])
        for row in rows
    )


def write_base(
    epoch: WriterEpoch,
    moment: datetime,
    rows: Mapping[Table, Dataset],
    progress: pa.Table,
    properties: Mapping[str, str],
) -> BasePlace:
    """Write a base, table by table; rows pass through the memory in batches.

    Args:
        epoch: the writer epoch of the tables folder.
        moment: the moment of the snapshot.
        rows: the rows of `KEY_TABLES`.
        progress: the rows of `load_progress`.
        properties: the properties of `load_progress`.

    Raises:
        TablesUnavailable: a table cannot be written.
        WriterFenced: a newer writer has taken over; the base is not complete.
    """
    base = BasePlace(moment, epoch.tables)
    try:
        versions = [
            (table.name, _write(base, table, rows[table].scanner().to_reader(), {}))
            for table in KEY_TABLES
        ]
        index = progress.schema.get_field_index("table_versions")
        column = pa.array([versions] * progress.num_rows, LOAD_PROGRESS.schema.field(index).type)
        progress = progress.set_column(index, LOAD_PROGRESS.schema.field(index), column)
        # After a power loss, a base with `load_progress` must be whole.
        _sync(base)
        epoch.require_current()
        _write(base, LOAD_PROGRESS, progress.to_reader(), properties)
        _sync(base)
    except TablesUnavailable:
        # A full disk needs the space.
        with suppress(TablesUnavailable, OSError):
            if not base.is_complete:
                file_system(epoch.tables).delete_dir(base.name)
        raise
    return base


def delete_bases(epoch: WriterEpoch, *, kept_since: datetime | None) -> int:
    """Delete the bases before a moment (all if None) and interrupted ones; return their number.

    Raises:
        TablesUnavailable: a file cannot be read or deleted.
        WriterFenced: a newer writer has taken over.
    """
    tables = epoch.tables
    # An incomplete base younger than this may be written right now.
    abandoned = earliest_now() - _WRITTEN_WITHIN
    expired = [
        base
        for base in bases_of(tables)
        if kept_since is None
        or base.moment < kept_since
        or (base.moment < abandoned and not base.is_complete and _written_at(base) < abandoned)
    ]
    with delta.writing(f"{tables.rstrip('/')}/{FOLDER}"):
        for base in expired:
            epoch.require_current()
            folder = file_system(tables)
            # Another maintenance may delete it at the same time.
            with suppress(FileNotFoundError):
                # Without its `load_progress` a base is an incomplete one.
                if base.is_complete:
                    folder.delete_dir(f"{base.name}/{LOAD_PROGRESS.name}")
                folder.delete_dir(base.name)
    return len(expired)


def _written_at(base: BasePlace) -> datetime:
    """When the newest file of a base was written."""
    with delta.reading(base.path):
        files = file_system(base.tables).get_file_info(
            FileSelector(base.name, allow_not_found=True, recursive=True)
        )
    times = [file.mtime for file in files if file.is_file and file.mtime is not None]
    return max((time.astimezone(timezone.utc) for time in times), default=base.moment)


def _write(
    base: BasePlace, table: Table, rows: pa.RecordBatchReader, properties: Mapping[str, str]
) -> int:
    """Replace the rows of a table; return the version with them."""
    path = table.path(base.path)
    create_table(base.path, table, properties)
    with delta.writing(path):
        write_deltalake(
            path,
            rows.cast(table.schema),
            mode="overwrite",
            commit_properties=CommitProperties(custom_metadata={MOMENT: base.moment.isoformat()}),
        )
    return delta.current_version(base.path, table)


def _sync(base: BasePlace) -> None:
    """Sync the files of a local base to the disk."""
    folder = local_path(base.path)
    if folder is None:
        return
    with delta.writing(base.path):
        for file in (*folder.rglob("*"), folder, folder.parent):
            sync_file(file)


def _moment(name: str) -> datetime | None:
    try:
        return datetime.strptime(name, _NAME).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
