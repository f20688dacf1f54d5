"""Limits the number of series, and selects the series to leave out.

Clients choose labels. A series therefore counts once, and once more for each 512 bytes of its
labels: the limit also bounds the bytes of an answer. The limit applies level by level: alerts,
groups, topics, partitions. Each level uses the rest of the levels before it. Within a level all
rows of one owner, such as a group, are kept or left out together: sums over an owner stay correct.
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
"""A series counts twice from this number of bytes in label values; usual names are shorter."""


@dataclass(slots=True)
class SeriesLimit:
    """The budget of series.

    Attributes:
        left: the number of series that still fit.
        left_out: the number of series that were left out, by level.
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
        """The rows of the owners that fit.

        Owners are taken in this order: without long labels, by highest rank, by name. If an owner
        does not fit, smaller ones after it may still fit.
        """
        owners = _counted(gauges, rows, owner)
        costs = owners["cost"].to_numpy()
        if costs.sum() <= self.left:
            self.left -= int(costs.sum())
            return rows
        rank = pa.array([ranks.get(name, 0) for name in owners[owner].to_pylist()], pa.int64())
        order = [("is_long", "ascending"), ("rank", "descending"), (owner, "ascending")]
        owners = owners.append_column("rank", rank).sort_by(order)
        fits = []
        for cost in owners["cost"].to_pylist():
            fits.append(cost <= self.left)
            self.left -= cost if fits[-1] else 0
        is_fitting = pa.array(fits, pa.bool_())
        series = pc.sum(owners.filter(pc.invert(is_fitting))["series"]).as_py()
        self.left_out[level] = self.left_out.get(level, 0) + (series or 0)
        fitting = owners.filter(is_fitting)[owner].combine_chunks()
        return rows.filter(pc.is_in(rows[owner], fitting))


def _counted(gauges: Sequence[Gauge], rows: pa.Table, owner: str) -> pa.Table:
    """The owners with the number of their series, their cost, and whether they have long labels."""
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
    return by_owner.rename_columns([owner, "series", "cost", "is_long"])


def _has_value(gauge: Gauge, rows: pa.Table) -> Any:
    """1 for each row for which the gauge has a series, else 0."""
    if gauge.column is None:
        return np.ones(rows.num_rows, np.int64)
    return pc.is_valid(rows[gauge.column]).to_numpy().astype(np.int64)


def _label_bytes(gauges: Sequence[Gauge], rows: pa.Table) -> Any:
    """The bytes of all text labels of each row."""
    columns = {column for gauge in gauges for column in gauge.labels.values()}
    texts = (rows[column] for column in columns if _is_text(rows[column].type))
    return sum(
        (pc.fill_null(pc.binary_length(text), 0).to_numpy() for text in texts),
        np.zeros(rows.num_rows, np.int64),
    )


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
