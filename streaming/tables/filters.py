"""Filters of the rows that a reader gives."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Filters: TypeAlias = "pc.Expression | list[tuple[str, str, Any]]"
"""A condition, or `(column, operator, value)` of which all must hold."""


def of_groups(group_ids: Collection[str] | None) -> pc.Expression | None:
    """The filter for these groups; None (no filter) for None."""
    if group_ids is None:
        return None
    return pc.field("group_id").isin(pa.array(sorted(group_ids), pa.string()))
