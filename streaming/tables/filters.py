"""Filters of the rows that a reader gives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import reduce
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Conditions: TypeAlias = list[tuple[str, str, Any]]
"""Conditions that must all hold, each as `(column, operator, value)`."""
Filters: TypeAlias = "pc.Expression | Conditions"
OPERATIONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": lambda column, value: pc.equal(column, pa.scalar(value, column.type)),
    ">": lambda column, value: pc.greater(column, pa.scalar(value, column.type)),
    ">=": lambda column, value: pc.greater_equal(column, pa.scalar(value, column.type)),
    "<=": lambda column, value: pc.less_equal(column, pa.scalar(value, column.type)),
    "in": lambda column, values: pc.is_in(column, pa.array(values, column.type)),
}
"""The operators of conditions."""


def of_groups(group_ids: Collection[str] | None) -> pc.Expression | None:
    """The filter for these groups; None (no filter) for None."""
    if group_ids is None:
        return None
    return pc.field("group_id").isin(pa.array(sorted(group_ids), pa.string()))


def rows_where(rows: pa.Table, conditions: Conditions) -> pa.Table:
    """The rows of a table in memory for which all conditions hold.

    Arrow starts a plan for an expression, which takes longer.
    """
    if not conditions:
        return rows
    masks = [OPERATIONS[operator](rows[name], value) for name, operator, value in conditions]
    return rows.filter(reduce(pc.and_, masks))
