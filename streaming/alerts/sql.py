"""Rules in SQL: checks the columns and types of the answer to a rule's query."""

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


def alert_rows(answer: pa.Table) -> list[dict[str, Any]]:
    """The rows of the answer to a rule's query, with only the columns that an alert has.

    Raises:
        ConfigurationError: a column or value has the wrong type.
    """
    names = [name for name in _COLUMNS if name in answer.column_names]
    if not names:
        return [{"value": None}] if answer.num_rows else []
    for name in names:
        if pa.types.is_nested(answer.schema.field(name).type):
            raise ConfigurationError(
                f"column {name} is a list or a struct: cast it to text with ::VARCHAR"
            )
    rows: list[dict[str, Any]] = answer.select(names).to_pylist()
    for row in rows:
        _check(row)
    return rows


def _check(row: dict[str, Any]) -> None:
    for name, types in _TYPES.items():
        value = row.get(name)
        if value is not None and not isinstance(value, types):
            kind = "text" if types == (str,) else "a whole number"
            raise ConfigurationError(f"column {name}: {value!r} is not {kind}")
    if row.get("partition") is not None and row["partition"] not in _INT32:
        raise ConfigurationError(f"column partition: {row['partition']} is not a 32-bit number")
    value = row.get("value")
    try:
        number = None if value is None else float(value)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"column value: {value!r} is not a number") from error
    # JSON has no NaN and no infinity.
    row["value"] = number if number is not None and math.isfinite(number) else None
