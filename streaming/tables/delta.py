"""Delta tables, read and written by delta-rs: a commit takes some milliseconds.

Spark's own MERGE of a thousand rows takes most of a second, and its smallest write half of one,
however warm it is; and a micro-batch is on the driver anyway once it is planned. docs/speed.md has
the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import tenacity
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from pyarrow.dataset import Dataset, Scanner, dataset, partitioning

from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.tables.columns import columns_of
from streaming.tables.file_systems import file_system
from streaming.tables.merging import merge_rows, merged
from streaming.tables.schemas import GONE, LOST, Table

CHANGE_DATA_FEED = "delta.enableChangeDataFeed"
_READER_VERSION = 1
_ATTEMPTS = 10
_MOST_PAUSE_S = 0.1


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
    try:
        files = files_of(opened, tables, table, pruned)
        try:
            found = files.to_table(columns=columns, filter=where)
        except pa.ArrowNotImplementedError:
            # Strings are views in files that delta-rs merged, compacted or wrote anew; pyarrow
            # filters by none before it has read them, and tells which files are such by failing.
            read_rows = files.scanner().to_reader()
            found = Scanner.from_batches(read_rows, columns=columns, filter=where).to_table()
    except (DeltaError, OSError) as error:
        # VACUUM has been here, or the store is away.
        raise TablesUnavailable(f"cannot read {table.path(tables)}: {said(error)}") from error
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
    try:
        return DeltaTable(path, version=version)
    except (DeltaError, OSError) as error:
        raise TablesUnavailable(f"cannot read {path}: {said(error)}") from error


def has_change_data_feed(opened: DeltaTable) -> bool:
    """Whether delta-rs's own MERGE wrote the table: its strings may be views."""
    return opened.metadata().configuration.get(CHANGE_DATA_FEED) == "true"


def current_version(tables: str, table: Table) -> int:
    """The newest version of a table."""
    return open_table(tables, table).version()


def merge(
    tables: str,
    table: Table,
    source: pa.Table,
    *,
    guard: str,
    deletes: str | None = None,
    replaced: Collection[int] = (),
) -> int:
    """MERGE rows into a table by its key; give the version after it.

    A row of a key that the table has takes its place, or takes it away, unless the table's is from
    later in the log.

    Args:
        tables: the tables folder.
        table: the table, which has a `record_offset`.
        source: at most one row per key, with the table's columns and those that are named here;
            columns of the table that it lacks become null.
        guard: the column that the `record_offset` of the table's row must not be greater than.
        deletes: the column that says whether a row only takes away, where there is one; null is no.
        replaced: log partitions of which the table keeps nothing but the rows of `source`.
    """

    def action(opened: DeltaTable) -> None:
        if has_change_data_feed(opened):
            # Only a deletion must know what is there.
            keys = None if deletes is None else rows_of(opened, tables, table, list(table.key))
            merge_rows(opened, table, source, guard, deletes, replaced, keys)
            return
        target = rows_of(opened, tables, table)
        if replaced:
            is_theirs = pc.is_in(target["log_partition"], pa.array(replaced, pa.int32()))
            target = target.filter(pc.invert(is_theirs))
        rows = merged(target, table, source, guard, deletes)
        write_deltalake(opened, rows, mode="overwrite")

    return _committed(table, tables, action)


def append(
    tables: str, table: Table, rows: pa.Table, *, transaction: tuple[str, int] | None = None
) -> int:
    """Append rows once per `transaction` (application id and version); give the version after it.

    The table knows the last transaction of each application, so a micro-batch that runs again adds
    nothing.
    """

    def action(opened: DeltaTable) -> None:
        properties = None
        if transaction is not None:
            application, number = transaction
            done = opened.transaction_version(application)
            if done is not None and done >= number:
                return
            properties = CommitProperties(app_transactions=[Transaction(application, number)])
        write_deltalake(
            opened, columns_of(table, rows), mode="append", commit_properties=properties
        )

    return _committed(table, tables, action)


def overwrite(tables: str, table: Table, rows: pa.Table) -> int:
    """Replace all rows of a small table; give the version after it."""

    def action(opened: DeltaTable) -> None:
        write_deltalake(opened, columns_of(table, rows), mode="overwrite")

    return _committed(table, tables, action)


def restore(tables: str, table: Table, version: int) -> int:
    """Make a table what it was at a version; give the version after it."""
    return _committed(table, tables, lambda opened: opened.restore(version))


def last_transaction(
    tables: str, table: Table, application: str, *, version: int | None = None
) -> int | None:
    """The number of the last transaction that `append` did for an application.

    Of those up to a version where one is given.
    """
    found: int | None = open_table(tables, table, version).transaction_version(application)
    return found


def delete_from(
    tables: str, table: Table, next_offsets: Mapping[int, int], *, others: bool = False
) -> int:
    """Delete the rows at or past each log partition's next offset; give the version after it.

    With `others` also all rows of log partitions that are not named. What tells of records that are
    not in the log any more stays.

    An append is a file of its own, which goes as a whole; only of files that were compacted since
    the rest is written anew, with strings as views.
    """
    rows = [_from(table, *from_offset) for from_offset in sorted(next_offsets.items())]
    if others:
        known = ", ".join(map(str, sorted(next_offsets)))
        rows.append(f"log_partition NOT IN ({known})" if known else "true")
    predicate = f"({' OR '.join(rows)}) AND {_in_log(table)}"
    return _committed(table, tables, lambda opened: opened.delete(predicate))


def mark_lost(tables: str, table: Table, from_offsets: Mapping[int, int]) -> int:
    """Give the rows from these record offsets on the outcome `lost`; give the version after it.

    Strings of files that are written anew for it are views.
    """
    rows = " OR ".join(_from(table, *from_offset) for from_offset in sorted(from_offsets.items()))
    lost = {"outcome": f"'{LOST}'"}
    predicate = f"({rows}) AND {_in_log(table)}"
    return _committed(table, tables, lambda opened: opened.update(lost, predicate=predicate))


def _from(table: Table, log_partition: int, offset: int) -> str:
    """The rows of a log partition that were appended when its log was read past an offset."""
    names = table.schema.names
    column = "outcome_record_offset" if "outcome_record_offset" in names else "record_offset"
    return f"(log_partition = {log_partition} AND {column} >= {offset})"


def _in_log(table: Table) -> str:
    """The rows that do not tell of records that are not in the log any more."""
    if "reason" in table.schema.names:
        return f"reason NOT LIKE '{GONE}%'"
    return f"(outcome IS NULL OR outcome <> '{LOST}')"


def _committed(table: Table, tables: str, action: Callable[[DeltaTable], object]) -> int:
    """Do something to a table; give the version after it. Again, where somebody was faster.

    That is upkeep, which puts files together and deletes days that are over; it is not about the
    rows of the query, the only other writer, but Delta cannot know.
    """
    path = table.path(tables)
    with writing(path):
        for attempt in tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(CommitFailedError),
            stop=tenacity.stop_after_attempt(_ATTEMPTS),
            wait=tenacity.wait_random(max=_MOST_PAUSE_S),
            reraise=True,
        ):
            with attempt:
                opened = DeltaTable(path)
                action(opened)
    return opened.version()


def said(error: BaseException) -> str:
    """The first line of what an error says."""
    return (str(error) or type(error).__name__).splitlines()[0]


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Tell where a write to a table fails.

    Raises:
        TablesUnavailable: it does.
    """
    try:
        yield
    except (DeltaError, OSError) as error:
        raise TablesUnavailable(f"cannot write {path}: {said(error)}") from error
