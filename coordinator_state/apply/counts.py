"""Numbers of records by outcome and log partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCounts:
    """Numbers of records in a micro-batch, by log partition.

    `rows` counts all rows. `pending` counts the offsets that are pending after the micro-batch,
    including earlier ones. The other fields count records by outcome; `LoadProgress.advance` checks
    that the outcomes account for all rows.
    """

    rows: Mapping[int, int] = field(default_factory=dict)
    pending: Mapping[int, int] = field(default_factory=dict)
    applied: Mapping[int, int] = field(default_factory=dict)
    superseded: Mapping[int, int] = field(default_factory=dict)
    ignored: Mapping[int, int] = field(default_factory=dict)
    quarantined: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def total(cls, counts: Iterable[RecordCounts]) -> RecordCounts:
        """The sum of several counts."""
        parts = list(counts)
        summed: dict[str, Counter[int]] = {
            counter_field.name: Counter() for counter_field in fields(cls)
        }
        for name, counter in summed.items():
            for part in parts:
                counter.update(getattr(part, name))
        return cls(**summed)


def by_log_partition(rows: pa.Table, mask: np.ndarray[Any, Any] | None = None) -> dict[int, int]:
    """The number of rows of each log partition, counting only rows that the mask selects."""
    column = rows["log_partition"]
    value_counts = (column if mask is None else column.filter(pa.array(mask))).value_counts()
    return dict(
        zip(
            value_counts.field("values").to_pylist(),
            value_counts.field("counts").to_pylist(),
            strict=True,
        )
    )
