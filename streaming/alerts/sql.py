"""Conditions in SQL: DuckDB over the views and tables of one snapshot, and nothing else."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, Final, TypeAlias

import duckdb
import pyarrow as pa
from pyarrow.dataset import Dataset

from streaming.errors import ConfigurationError

Queried: TypeAlias = "pa.Table | Dataset"

_COLUMNS: Final = ("group_id", "topic", "partition", "value", "reason")
_WORD: Final = re.compile(r"\w+")
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "group_id": (str,),
    "topic": (str,),
    "partition": (int,),
}


_INT32: Final = range(-(1 << 31), 1 << 31)


def check(sql: str, schemas: Mapping[str, pa.Schema]) -> None:
    """Whether a query can be understood, whatever is in the tables.

    Raises:
        ConfigurationError: it cannot, or it is no SELECT.
    """
    moment = datetime.now(timezone.utc)
    with _connected(moment) as connection:
        _bound(connection, sql, schemas, lambda name: schemas[name].empty_table())


def query(
    sql: str, moment: datetime, names: Collection[str], table: Callable[[str], Queried]
) -> list[dict[str, Any]]:
    """The rows of a query; neither files nor other addresses are within its reach.

    Args:
        sql: a SELECT. Of its columns, `group_id`, `topic`, `partition`, `value` and `reason` are
            given.
        moment: what `moment()` is in it.
        names: tables that there are.
        table: gives one of them; asked for those that the query names.

    Raises:
        ConfigurationError: the query fails, or a column is not what it has to be.
    """
    with _connected(moment) as connection:
        found = _bound(connection, sql, names, table).to_arrow_table()
    told = [name for name in _COLUMNS if name in found.column_names]
    if not told:
        return [{"value": None}] if found.num_rows else []
    rows: list[dict[str, Any]] = found.select(told).to_pylist()
    for row in rows:
        _check(row)
    return rows


@contextmanager
def _connected(moment: datetime) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(config={"enable_external_access": "false"})
    try:
        connection.execute(f"CREATE MACRO moment() AS TIMESTAMPTZ '{moment.isoformat()}'")
        yield connection
    except duckdb.Error as error:
        raise ConfigurationError(str(error).splitlines()[0]) from error
    finally:
        connection.close()


def _bound(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    names: Iterable[str],
    table: Callable[[str], Queried],
) -> duckdb.DuckDBPyRelation:
    words = {word.lower() for word in _WORD.findall(sql)}
    for name in words.intersection(names):
        connection.register(name, table(name))
    connection.execute("SET lock_configuration = true")
    relation = connection.sql(sql)
    if relation is None:
        raise ConfigurationError("sql is no SELECT")
    return relation


def _check(row: dict[str, Any]) -> None:
    for name, types in _TYPES.items():
        value = row.get(name)
        if value is not None and not isinstance(value, types):
            what = "text" if types == (str,) else "number"
            raise ConfigurationError(f"{name} {value!r} is no {what}")
    if row.get("partition") is not None and row["partition"] not in _INT32:
        raise ConfigurationError(f"partition {row['partition']} is none")
    value = row.get("value")
    try:
        number = None if value is None else float(value)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"value {value!r} is no number") from error
    # JSON has no others.
    row["value"] = number if number is not None and math.isfinite(number) else None
