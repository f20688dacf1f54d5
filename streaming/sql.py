"""SQL over the tables and views of a snapshot: DuckDB, which sees nothing else.

No file, address, environment variable or Python object is within reach of a query.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Final, Protocol, TypeAlias

import duckdb
import pyarrow as pa
from pyarrow.dataset import Dataset

from streaming.errors import ConfigurationError
from streaming.views import SCHEMAS

Queried: TypeAlias = "pa.Table | Dataset"

_WORD: Final = re.compile(r"\w+")
_SEES_NOTHING: Final = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "secret_directory": "",
    "temp_directory": "",
}
_ROWS_AT_ONCE: Final = 1_000


class Looked(Protocol):
    """Tables and views as of one moment."""

    at: datetime

    def queried(self, name: str) -> Queried:
        """A table or view for an engine that chooses rows and columns by itself."""


def query(
    sql: str,
    snapshot: Looked,
    *,
    most_rows: int | None = None,
    most_bytes: int | None = None,
    within_s: float | None = None,
) -> pa.Table:
    """The answer to a SELECT; `moment()` in it is when the snapshot is looked at.

    Args:
        sql: a SELECT in DuckDB's SQL.
        snapshot: where tables and views are.
        most_rows: after so many, the rest is left out.
        most_bytes: an answer that is larger is an error, and so is a query that needs much more
            memory than that.
        within_s: a query that takes longer ends.

    Raises:
        ConfigurationError: it cannot be understood, fails, takes too long, or is no SELECT.
    """
    with _connected(snapshot.at) as connection:
        if most_bytes is not None:
            connection.execute(f"SET memory_limit = '{16 * most_bytes}B'")
        relation = _bound(connection, sql, snapshot.queried)
        if most_rows is not None:
            relation = relation.limit(most_rows)
        with _interrupted(connection, within_s):
            found = _read(relation, most_bytes)
    return found.rename_columns(_unique(found.column_names))


def _read(relation: duckdb.DuckDBPyRelation, most_bytes: int | None) -> pa.Table:
    if most_bytes is None:
        return relation.to_arrow_table()
    reader = relation.to_arrow_reader(_ROWS_AT_ONCE)
    batches: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in reader:
        batches.append(batch)
        size_bytes += batch.nbytes
        if size_bytes > most_bytes:
            raise ConfigurationError(f"the answer is larger than {most_bytes >> 20} MB")
    return pa.Table.from_batches(batches, schema=reader.schema)


@contextmanager
def _interrupted(connection: duckdb.DuckDBPyConnection, within_s: float | None) -> Iterator[None]:
    """End what the block does after so long."""
    timer = threading.Timer(within_s or 0, connection.interrupt)
    if within_s is not None:
        timer.start()
    try:
        yield
    except duckdb.InterruptException as error:
        raise ConfigurationError(f"the query took more than {within_s:g} s") from error
    finally:
        timer.cancel()


def _unique(names: Sequence[str]) -> list[str]:
    """Names of columns, each once.

    >>> _unique(["a", "b", "a"])
    ['a', 'b', 'a_1']
    """
    found: list[str] = []
    for name in names:
        number, other = 0, name
        while other in found:
            number += 1
            other = f"{name}_{number}"
        found.append(other)
    return found


def check(sql: str) -> None:
    """Whether a query can be understood, whatever is in the tables.

    Raises:
        ConfigurationError: it cannot, or it is no SELECT.
    """
    with _connected(datetime.now(timezone.utc)) as connection:
        _bound(connection, sql, lambda name: SCHEMAS[name].empty_table())


@contextmanager
def _connected(moment: datetime) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(config=dict(_SEES_NOTHING))
    try:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE MACRO moment() AS TIMESTAMPTZ '{moment.isoformat()}'")
        yield connection
    except duckdb.Error as error:
        raise ConfigurationError(str(error).splitlines()[0]) from error
    finally:
        connection.close()


def _bound(
    connection: duckdb.DuckDBPyConnection, sql: str, named: Callable[[str], Queried]
) -> duckdb.DuckDBPyRelation:
    words = {word.lower() for word in _WORD.findall(sql)}
    for name in words.intersection(SCHEMAS):
        connection.register(name, named(name))
    connection.execute("SET lock_configuration = true")
    statements = connection.extract_statements(sql)
    if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
        raise ConfigurationError("sql is no SELECT")
    return connection.sql(sql)
