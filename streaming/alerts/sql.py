"""Conditions in SQL: DuckDB over the views and tables of one snapshot, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Final

import duckdb
import pyarrow as pa

from streaming.errors import ConfigurationError

_WORD: Final = re.compile(r"\w+")
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "group_id": (str,),
    "topic": (str,),
    "partition": (int,),
}


def query(
    sql: str, moment: datetime, names: Collection[str], table: Callable[[str], pa.Table]
) -> list[dict[str, Any]]:
    """The rows of a query; neither files nor other addresses are within its reach.

    Args:
        sql: a SELECT. Of its columns, `group_id`, `topic`, `partition`, `value` and `reason` mean
            something.
        moment: what `moment()` is in it.
        names: tables that there are.
        table: gives one of them; asked for those that the query names.

    Raises:
        ConfigurationError: the query fails, or a column is not what it has to be.
    """
    words = {word.lower() for word in _WORD.findall(sql)}
    connection = duckdb.connect(config={"enable_external_access": "false"})
    try:
        for name in words.intersection(names):
            connection.register(name, table(name))
        connection.execute(f"CREATE MACRO moment() AS TIMESTAMPTZ '{moment.isoformat()}'")
        connection.execute("SET lock_configuration = true")
        relation = connection.sql(sql)
        if relation is None:
            raise ConfigurationError("sql is no SELECT")
        rows: list[dict[str, Any]] = relation.to_arrow_table().to_pylist()
    except duckdb.Error as error:
        raise ConfigurationError(str(error).splitlines()[0]) from error
    finally:
        connection.close()
    for row in rows:
        _check(row)
    return rows


def _check(row: dict[str, Any]) -> None:
    for name, types in _TYPES.items():
        value = row.get(name)
        if value is not None and not isinstance(value, types):
            what = "text" if types == (str,) else "number"
            raise ConfigurationError(f"{name} {value!r} is no {what}")
    value = row.get("value")
    try:
        row["value"] = None if value is None else float(value)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"value {value!r} is no number") from error
