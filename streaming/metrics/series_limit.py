"""Which series are left out where there would be more than a limit.

Labels are what clients chose, so a series counts once, and once more for each further 512 bytes of
its labels: a limit on series is one on bytes, too. Series are offered by levels (groups, topics,
partitions), each with what the levels before it have left. Within a level the rows of one owner, a
group say, are taken whole or left out whole, so that sums over an owner are right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.metrics.families import Gauge

LABEL_BYTES: Final = 512
"""Bytes of label values that a series has before it counts twice: names that people choose fit."""


@dataclass(slots=True)
class SeriesLimit:
    """Counts down from a number of series.

    Attributes:
        left: how many more fit.
        left_out: how many were left out, by level.
    """

    left: int
    left_out: dict[str, int] = field(default_factory=dict)

    def fitting(
        self,
        level: str,
        gauges: Sequence[Gauge],
        rows: pa.Table,
        owner: str,
        ranks: Mapping[str, int],
    ) -> pa.Table:
        """The rows that fit.

        Owners without long labels come first, then those of the highest rank, then the first by
        name. One that does not fit leaves its place to the next that does.
        """
        owners = _counted(gauges, rows, owner)
        owners.sort(key=lambda one: (one["is_long"], -ranks.get(one[owner], 0), one[owner]))
        fitting = []
        for one in owners:
            if one["cost"] <= self.left:
                self.left -= one["cost"]
                fitting.append(one[owner])
            else:
                self.left_out[level] = self.left_out.get(level, 0) + one["series"]
        if len(fitting) == len(owners):
            return rows
        return rows.filter(pc.is_in(rows[owner], pa.array(fitting, rows.schema.field(owner).type)))


def _counted(gauges: Sequence[Gauge], rows: pa.Table, owner: str) -> list[dict[str, Any]]:
    """Each owner with its series, their cost, and whether it has long labels."""
    series = sum(_has_value(gauge, rows) for gauge in gauges)
    extra = _label_bytes(gauges, rows) // LABEL_BYTES
    counted = pa.table(
        {
            owner: rows[owner],
            "series": series,
            "cost": series * (1 + extra),
            "is_long": extra > 0,
        }
    )
    by_owner = counted.group_by(owner).aggregate(
        [("series", "sum"), ("cost", "sum"), ("is_long", "max")]
    )
    found: list[dict[str, Any]] = by_owner.rename_columns(
        [owner, "series", "cost", "is_long"]
    ).to_pylist()
    return found


def _has_value(gauge: Gauge, rows: pa.Table) -> Any:
    """1 for each row that is a series of the gauge, else 0."""
    if gauge.column is None:
        return np.ones(rows.num_rows, np.int64)
    return pc.is_valid(rows[gauge.column]).to_numpy().astype(np.int64)


def _label_bytes(gauges: Sequence[Gauge], rows: pa.Table) -> Any:
    """Bytes of all label values of each row that are text."""
    columns = {column for gauge in gauges for column in gauge.labels.values()}
    texts = (rows[column] for column in columns if _is_text(rows[column].type))
    return sum(
        (pc.fill_null(pc.binary_length(text), 0).to_numpy() for text in texts),
        np.zeros(rows.num_rows, np.int64),
    )


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
