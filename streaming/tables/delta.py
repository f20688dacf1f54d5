"""Delta tables, read by delta-rs. `writer` has the writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.dataset import Dataset, Scanner, dataset, partitioning

from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.tables.file_systems import file_system
from streaming.tables.schemas import Table

CHANGE_DATA_FEED = "delta.enableChangeDataFeed"
_READER_VERSION = 1
_COLOUR = re.compile(r"\x1b\[\d*m")
_CAUSE = "↳"


def files_of(
    opened: DeltaTable,
    tables: str,
    table: Table,
    pruned: list[tuple[str, str, Any]] | None = None,
) -> Dataset:
    """The files of a table, opened once they are read.

    delta-rs's own dataset brings what is known of each file's values over to Arrow, some
    milliseconds a file, and tables that are appended to by the second have many.

    Raises:
        ConfigurationError: the table has features that no reader of the plain protocol knows.
    """
    if opened.protocol().min_reader_version > _READER_VERSION:
        raise ConfigurationError(
            f"{table.path(tables)} has features that this program does not write, such as "
            "deletion vectors: make the table again without them"
        )
    # A file lies below the folders of its partition values.
    depth = 1 + len(table.partition_by)
    uris = opened.file_uris(file_pruning_predicate=pruned)
    return dataset(
        ["/".join(uri.split("/")[-depth:]) for uri in uris],
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
) -> pa.Table:
    """Rows with the types of the table's schema: delta-rs may give other widths.

    Args:
        opened: the table at some version.
        tables: the tables folder.
        table: which of its tables it is.
        columns: all where None.
        where: what rows fit.
        pruned: conditions by whose values files are left out.

    Raises:
        ConfigurationError: they cannot be read.
    """
    columns = table.schema.names if columns is None else list(columns)
    # VACUUM may have been here, or the store may be away.
    with reading(table.path(tables)):
        files = files_of(opened, tables, table, pruned)
        try:
            found = files.to_table(columns=columns, filter=where)
        except pa.ArrowNotImplementedError:
            # Strings are views in files that delta-rs merged, compacted or wrote anew; pyarrow
            # filters by none before it has read them, and tells which files are such by failing.
            read_rows = files.scanner().to_reader()
            found = Scanner.from_batches(read_rows, columns=columns, filter=where).to_table()
    fields = [table.schema.field(name) for name in found.column_names]
    arrays: list[Any] = [found[field.name].cast(field.type) for field in fields]
    return pa.table(arrays, schema=pa.schema(fields))


def read(
    tables: str,
    table: Table,
    columns: Sequence[str] | None = None,
    *,
    where: pc.Expression | None = None,
    version: int | None = None,
) -> pa.Table:
    """A table, as it was at a version where one is given."""
    found = open_table(tables, table, version)
    return rows_of(found, tables, table, columns, where=where)


def open_table(tables: str, table: Table, version: int | None = None) -> DeltaTable:
    """A table, as it was at a version where one is given.

    Raises:
        TablesUnavailable: it cannot be read.
    """
    path = table.path(tables)
    with reading(path):
        return DeltaTable(path, version=version)


def has_change_data_feed(opened: DeltaTable) -> bool:
    """Whether delta-rs's own MERGE wrote the table: its strings may be views."""
    return opened.metadata().configuration.get(CHANGE_DATA_FEED) == "true"


def current_version(tables: str, table: Table) -> int:
    """The newest version of a table."""
    return open_table(tables, table).version()


def said(error: BaseException) -> str:
    """The first line of an error's text, and the causes that delta-rs gives a line each."""
    first, *others = _COLOUR.sub("", str(error) or type(error).__name__).splitlines()
    causes = [line.partition(_CAUSE)[2].strip() for line in others if _CAUSE in line]
    return ": ".join([first, *causes])


@contextmanager
def _naming(operation: str, path: str) -> Iterator[None]:
    """Name the table or folder that an operation fails on.

    Raises:
        TablesUnavailable: it fails.
    """
    try:
        yield
    except (DeltaError, OSError) as error:
        raise TablesUnavailable(f"cannot {operation} {path}: {said(error)}") from error


reading = partial(_naming, "read")
writing = partial(_naming, "write")
