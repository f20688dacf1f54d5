"""Reads of Delta tables with delta-rs; `writer` has the writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow.dataset import Dataset, Scanner, dataset, partitioning
from pyarrow.parquet import filters_to_expression

from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.tables import deletion_vectors
from streaming.tables.file_systems import file_system
from streaming.tables.locations import local_path
from streaming.tables.schemas import LOAD_PROGRESS, Table

CHANGE_DATA_FEED = "delta.enableChangeDataFeed"
_READER_VERSION = 1
_SUPPORTED_FEATURES = {deletion_vectors.FEATURE, "variantType"}
"""Of tables with a newer reader version. No table has a column of the type variant, but delta-rs
(1.6) adds the feature when it sets a property of such a table."""
_COLOUR = re.compile(r"\x1b\[\d*m")
_CAUSE = "↳"
_MISSING = re.compile(r"(?:Kernel error: File not found: |Failed to open local file ')([^']+)")


def files_of(
    opened: DeltaTable,
    tables: str,
    table: Table,
    pruned: list[tuple[str, str, Any]] | None = None,
    paths: Sequence[str] | None = None,
) -> Dataset:
    """The files of a table as an Arrow dataset; a file is opened when it is read.

    A file may have rows that a deletion vector has deleted from the table.

    delta-rs's own dataset converts the statistics of each file for Arrow, which takes some
    milliseconds per file. Tables with an append each second have many files.

    `paths` are the files to read, in this order; if None, those that `pruned` leaves, in any order.

    Raises:
        ConfigurationError: readers of the table need a feature that this program does not support.
    """
    protocol = opened.protocol()
    if protocol.min_reader_version > _READER_VERSION:
        unsupported = set(protocol.reader_features or ["columnMapping"]) - _SUPPORTED_FEATURES
        if unsupported:
            raise ConfigurationError(
                f"{table.path(tables)} has Delta features that this program does not support "
                f"({', '.join(sorted(unsupported))}): create the table again without them"
            )
    # The path of a file begins with the folders of its partition values.
    depth = 1 + len(table.partition_by)
    if paths is None:
        uris = opened.file_uris(file_pruning_predicate=pruned)
        paths = ["/".join(uri.split("/")[-depth:]) for uri in uris]
    return dataset(
        list(paths),
        schema=table.schema,
        format="parquet",
        filesystem=file_system(table.path(tables)),
        partitioning=partitioning(
            pa.schema([table.schema.field(name) for name in table.partition_by]), flavor="hive"
        ),
    )


def rows_of(
    opened: DeltaTable,
    tables: str,
    table: Table,
    columns: Sequence[str] | None = None,
    *,
    where: pc.Expression | None = None,
    pruned: list[tuple[str, str, Any]] | None = None,
    paths: Sequence[str] | None = None,
) -> pa.Table:
    """Rows with the types of the table's schema; delta-rs may return other widths.

    Args:
        opened: the table, opened at a version.
        tables: the tables folder.
        table: the table.
        columns: the columns to read; all if None.
        where: the filter of rows; all rows if None.
        pruned: conditions on statistics and partition values that exclude whole files.
        paths: the files to read, in this order; all that `pruned` leaves if None.

    Raises:
        ConfigurationError: the rows cannot be read.
    """
    columns = table.schema.names if columns is None else list(columns)
    # VACUUM may have deleted a file, or the store may be unreachable.
    with reading(table.path(tables)):
        files = files_of(opened, tables, table, pruned, paths)
        kept = deletion_vectors.kept_rows(opened)
        needed = None
        if where is None or pruned is not None:
            filtered = {name for name, _, _ in pruned or ()}
            needed = [n for n in table.schema.names if n in filtered or n in columns]
        try:
            if kept:
                arrow_table = _rows_without_deleted(files, kept, needed, where).select(columns)
            else:
                arrow_table = files.to_table(columns=columns, filter=where)
        except pa.ArrowNotImplementedError:
            # In files that MERGE or DELETE of delta-rs wrote, strings are views. pyarrow (up to 26)
            # cannot push a filter by text down to views and fails, so it filters the rows it read.
            pushed = [condition for condition in pruned or () if not _is_text(table, condition[0])]
            rows = files.scanner(
                columns=needed, filter=filters_to_expression(pushed) if pushed else None
            )
            scanner = Scanner.from_batches(rows.to_reader(), columns=columns, filter=where)
            arrow_table = scanner.to_table()
    fields = [table.schema.field(name) for name in arrow_table.column_names]
    arrays: list[Any] = [arrow_table[field.name].cast(field.type) for field in fields]
    return pa.table(arrays, schema=pa.schema(fields))


def _is_text(table: Table, column: str) -> bool:
    return bool(pa.types.is_string(table.schema.field(column).type))


def _rows_without_deleted(
    files: Dataset,
    kept: Mapping[str, pa.BooleanArray],
    columns: list[str] | None,
    where: pc.Expression | None,
) -> pa.Table:
    """The rows of files with deletion vectors, read first and then filtered."""
    names = files.schema.names if columns is None else columns
    schema = pa.schema([files.schema.field(name) for name in names])
    batches = (
        batch.cast(schema)
        for file in files.get_fragments()
        for batch in deletion_vectors.batches_of(file, files.schema, names, kept)
    )
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    return Scanner.from_batches(reader, filter=where).to_table()


def read(
    tables: str,
    table: Table,
    columns: Sequence[str] | None = None,
    *,
    where: pc.Expression | None = None,
    version: int | None = None,
) -> pa.Table:
    """The rows of a table at a version, or at the newest."""
    opened = open_table(tables, table, version)
    return rows_of(opened, tables, table, columns, where=where)


def open_table(tables: str, table: Table, version: int | None = None) -> DeltaTable:
    """Open a table at a version, or at the newest.

    Raises:
        TablesUnavailable: the table cannot be read.
    """
    path = table.path(tables)
    with reading(path):
        return DeltaTable(path, version=version)


def open_version(path: str, tables: str, version: int | None = None) -> DeltaTable:
    """Open a table for a reader.

    Raises:
        ConfigurationError: the folder or the table does not exist, or cannot be read.
    """
    try:
        return DeltaTable(path, version=version)
    except TableNotFoundError as error:
        folder = local_path(tables)
        if folder is not None and not folder.exists():
            message = f"there is no folder {tables}: coordinator-state run creates it"
        elif folder is not None and (folder / LOAD_PROGRESS.name / "_delta_log").is_dir():
            raise missing(Path(path), tables) from error
        else:
            message = f"{path} is not a Delta table: {tables} has no tables of coordinator-state"
        raise ConfigurationError(message) from error
    except (DeltaError, OSError) as error:
        raise ConfigurationError(f"cannot read {path}: {error_text(error)}") from error


def missing(folder: Path, tables: str) -> TablesUnavailable:
    """The error about a table that somebody deleted, from a local folder that has others."""
    return TablesUnavailable(
        f"{folder} is missing: restore it from a backup, or move {tables} away and start `run`, "
        "which loads the log from its start"
    )


def counted_rows(opened: DeltaTable) -> int:
    """The number of rows of a table by the statistics of its files, which keep deleted rows."""
    files = pa.table(opened.get_add_actions(flatten=True))
    return int(pc.sum(files["num_records"]).as_py() or 0)


RowsByDay = Mapping[date, int]
"""The number of rows of a table of history by day."""
_MOST_ROWS: Final = 20_000_000


def rows_by_day(path: str) -> RowsByDay:
    """The number of rows of a table of history by day, from the statistics of its files.

    It is empty if there is no such table. Rows without a day are left out.
    """
    if not DeltaTable.is_deltatable(path):
        return {}
    files = pa.table(DeltaTable(path).get_add_actions(flatten=True))
    days = pc.cast(files["partition.day"], pa.date32())
    totals = pa.table({"day": days, "rows": files["num_records"]}).group_by("day")
    rows = totals.aggregate([("rows", "sum")]).to_pylist()
    return {row["day"]: row["rows_sum"] or 0 for row in rows if row["day"] is not None}


def is_too_large(tables: Sequence[RowsByDay], since: datetime, at: datetime) -> bool:
    """Whether a table has too many rows of a time to read them, which would take seconds."""
    begin = datetime.combine(since.date(), datetime.min.time(), timezone.utc)
    share = (at - since) / (at - begin)
    return any(
        share * sum(rows for day, rows in by_day.items() if day >= begin.date()) > _MOST_ROWS
        for by_day in tables
    )


def has_plain_files(opened: DeltaTable) -> bool:
    """Whether Arrow can read and filter the files of a table without `rows_of`."""
    return not (has_change_data_feed(opened) or deletion_vectors.may_have_deletion_vectors(opened))


def has_change_data_feed(opened: DeltaTable) -> bool:
    """Whether a table has a change data feed; delta-rs's MERGE then wrote its strings as views."""
    return opened.metadata().configuration.get(CHANGE_DATA_FEED) == "true"


def current_version(tables: str, table: Table) -> int:
    """The newest version of a table."""
    return open_table(tables, table).version()


def error_text(error: BaseException) -> str:
    """The first line of an error's text and its causes, which delta-rs prints one per line."""
    first, *others = _COLOUR.sub("", str(error) or type(error).__name__).splitlines()
    causes = [line.partition(_CAUSE)[2].strip() for line in others if _CAUSE in line]
    text = ": ".join([first, *causes])
    missing = _MISSING.search(text)
    if missing is None and not isinstance(error, FileNotFoundError):
        return text
    file = text if missing is None else missing[1]
    return f"the file {file} is missing; was the folder deleted or moved?"


@contextmanager
def _naming(operation: str, path: str) -> Iterator[None]:
    """Convert a failure of an operation into an error that names the table or folder.

    Raises:
        TablesUnavailable: the operation failed.
    """
    try:
        yield
    except (DeltaError, OSError) as error:
        raise TablesUnavailable(f"cannot {operation} {path}: {error_text(error)}") from error


reading = partial(_naming, "read")
writing = partial(_naming, "write")
