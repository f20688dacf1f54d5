"""SQL over the tables and views of a snapshot, in DuckDB.

A query has no access to files, addresses, environment variables or Python objects.
`streaming.views.sql.processes` runs queries of users in separate processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from datetime import datetime
from functools import cache
from threading import Lock
from typing import Final, NamedTuple, Protocol, TypeAlias

import duckdb
import pyarrow as pa
from pyarrow.dataset import Dataset

from streaming.errors import ConfigurationError
from streaming.tables.clock import utc_now
from streaming.views.definitions import SCHEMAS

Queried: TypeAlias = "pa.Table | Dataset"

_LOCK: Final = Lock()
_INTERRUPT_EVERY_S: Final = 0.1
_WORD: Final = re.compile(r"\w+")
_LITERAL: Final = re.compile(r"'(?:[^']|'')*'")
_SHOW: Final = re.compile(r"\s*SHOW\b", re.IGNORECASE)
_NO_ACCESS: Final = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # Errors and settings name these folders; by default they are below the user's home.
    "home_directory": "/",
    "extension_directory": "/",
    "secret_directory": "/",
    "temp_directory": "",
}


class Source(Protocol):
    """Tables and views as of one moment, such as a `Snapshot`."""

    at: datetime

    def queried(self, name: str) -> Queried:
        """A table or view for an engine that selects rows and columns itself."""


class Answer(NamedTuple):
    """The schema of an answer, with unique column names, and its rows in batches."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def query(sql: str, snapshot: Source) -> pa.Table:
    """The answer to a SELECT; `moment()` in it is the time of the snapshot.

    Args:
        sql: a SELECT in DuckDB's SQL.
        snapshot: the source of tables and views.

    Raises:
        ConfigurationError: the query is not valid, is not a SELECT, or fails.
    """
    with _connected(snapshot.at) as connection:
        answer = _interruptible(
            connection, lambda: _bound(connection, sql, snapshot.queried).to_arrow_table()
        )
    return answer.rename_columns(_unique(answer.column_names))


@contextmanager
def asking(
    queried: Callable[[str], Queried] | Mapping[str, Queried],
) -> Iterator[Callable[[str], pa.Table]]:
    """A function that answers SELECTs of this program, which are safe; they have no `moment()`.

    All of them share one database, because DuckDB takes many milliseconds to open one.

    Args:
        queried: a table or view by its name, or tables of any names.

    Raises:
        ConfigurationError: the tables cannot be read.
    """
    with _LOCK:
        connection = _shared_database().cursor()

    registered: set[str] = set()
    if isinstance(queried, Mapping):
        names, named = {*queried}, queried.__getitem__
    else:
        names, named = {*SCHEMAS}, queried

    def ask(sql: str) -> pa.Table:
        for name in names.intersection(_words(_LITERAL.sub("", sql))) - registered:
            connection.register(name, named(name))
            registered.add(name)
        return connection.sql(sql).to_arrow_table()

    with closing(connection), _in_plain_words():
        yield ask


@cache
def _shared_database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={**_NO_ACCESS})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


@contextmanager
def answering(
    sql: str,
    snapshot: Source,
    *,
    rows_at_once: int,
    settings: Mapping[str, str | int],
) -> Iterator[Answer]:
    """The answer to a SELECT batch by batch; the whole answer is never in memory.

    Args:
        sql: a SELECT in DuckDB's SQL.
        snapshot: the source of tables and views.
        rows_at_once: the number of rows in a batch.
        settings: settings of DuckDB, such as `memory_limit`.

    Raises:
        ConfigurationError: the query is not valid, is not a SELECT, or fails.
    """
    with _connected(snapshot.at, settings) as connection:
        reader = _bound(connection, sql, snapshot.queried).to_arrow_reader(rows_at_once)
        names = _unique(reader.schema.names)
        schema = pa.schema(
            [field.with_name(name) for field, name in zip(reader.schema, names, strict=True)]
        )
        yield Answer(schema, _renamed(reader, schema))


def check(sql: str) -> None:
    """Check that a query is valid; binds it to empty tables and does not run it.

    Raises:
        ConfigurationError: the query is not valid, or not a single SELECT.
    """
    with _connected(utc_now()) as connection:
        _bound(connection, sql, lambda name: SCHEMAS[name].empty_table())


def names_in(sql: str) -> set[str]:
    """The tables and views that a query may use: all names that occur in its text.

    >>> sorted(names_in("SELECT groups FROM Group_Lag"))
    ['group_lag', 'groups']
    """
    return _words(sql).intersection(SCHEMAS)


def _words(sql: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(sql)}


def _renamed(reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    try:
        for batch in reader:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    except (OSError, pa.ArrowException) as error:
        # Arrow wraps DuckDB's error.
        raise ConfigurationError(_in_one_line(error)) from error


def _interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], pa.Table]) -> pa.Table:
    """Run the work in another thread, because not every DuckDB call reacts to Ctrl-C."""
    with ThreadPoolExecutor(1, thread_name_prefix="sql") as pool:
        answer = pool.submit(work)
        try:
            return answer.result()
        except KeyboardInterrupt:
            while not wait([answer], _INTERRUPT_EVERY_S).done:
                connection.interrupt()
            raise


def _unique(names: Sequence[str]) -> list[str]:
    """Column names, made unique by a number.

    >>> _unique(["a", "b", "a"])
    ['a', 'b', 'a_1']
    """
    unique_names: list[str] = []
    for name in names:
        number, other = 0, name
        while other in unique_names:
            number += 1
            other = f"{name}_{number}"
        unique_names.append(other)
    return unique_names


@contextmanager
def _connected(
    moment: datetime, settings: Mapping[str, str | int] | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(config={**_NO_ACCESS, **(settings or {})})
    with closing(connection), _in_plain_words():
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE MACRO moment() AS TIMESTAMPTZ '{moment.isoformat()}'")
        connection.execute("SET lock_configuration = true")
        yield connection


@contextmanager
def _in_plain_words() -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, OSError) as error:
        raise ConfigurationError(_in_one_line(error)) from error


def _bound(
    connection: duckdb.DuckDBPyConnection, sql: str, named: Callable[[str], Queried]
) -> duckdb.DuckDBPyRelation:
    used = names_in(sql)
    for name in used:
        connection.register(name, named(name))
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        # Python makes such characters of bytes that the locale does not know.
        raise ConfigurationError(
            "the query is not valid Unicode: use a locale with UTF-8, such as LC_ALL=C.UTF-8"
        ) from error
    statements = connection.extract_statements(sql)
    if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
        raise ConfigurationError("only a single SELECT is allowed")
    if _SHOW.match(sql):
        _register_without_rows(connection, SCHEMAS.keys() - used)
    try:
        return connection.sql(sql)
    except duckdb.CatalogException:
        # DuckDB suggests a name only of tables that it has.
        _register_without_rows(connection, SCHEMAS.keys() - used)
        connection.sql(sql)
        raise


def _register_without_rows(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    for name in names:
        connection.register(name, SCHEMAS[name].empty_table())


def _in_one_line(error: Exception) -> str:
    r"""DuckDB's error with its suggestions, without the quoted query.

    >>> _in_one_line(ValueError('no table grous!\nDid you mean "groups"?\n\nLINE 1: FROM grous'))
    'no table grous! Did you mean "groups"?'
    """
    said, _, _ = str(error).strip().partition("\n\n")
    return " ".join(said.split("\n")) or type(error).__name__
