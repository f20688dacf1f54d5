"""Conditions in SQL: what the columns of a rule's query have to be."""

from __future__ import annotations

import math
from typing import Any, Final

import pyarrow as pa

from streaming.errors import ConfigurationError

_COLUMNS: Final = ("group_id", "topic", "partition", "value", "reason")
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "group_id": (str,),
    "topic": (str,),
    "partition": (int,),
}
_INT32: Final = range(-(1 << 31), 1 << 31)


def alert_rows(found: pa.Table) -> list[dict[str, Any]]:
    """The rows of a rule's query: of its columns, those that an alert has.

    Raises:
        ConfigurationError: a column has the wrong name or type.
    """
    told = [name for name in _COLUMNS if name in found.column_names]
    if not told:
        return [{"value": None}] if found.num_rows else []
    for name in told:
        if pa.types.is_nested(found.schema.field(name).type):
            raise ConfigurationError(f"{name} is a list or a struct: make it text with ::VARCHAR")
    rows: list[dict[str, Any]] = found.select(told).to_pylist()
    for row in rows:
        _check(row)
    return rows


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
