"""The source `coordinator_log` with fault points, by which Spark's planner and workers know it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from streaming.source import log_range
from streaming.source.coordinator_log import CoordinatorLogDataSource, CoordinatorLogStreamReader
from streaming.source.options import SourceOptions
from tests.kills.fault_points import (
    AFTER_PARTITIONS,
    AT,
    BEFORE_PARTITIONS,
    FIRST_READ,
    INITIAL_OFFSET,
    LAST_READ,
    LATEST_OFFSET,
    NEXT_READ,
    POINTS_OF_READING,
    pass_point,
)

_FEW_ROWS = 5


class KilledLogDataSource(CoordinatorLogDataSource):
    """In the place of the one that it is."""

    def streamReader(self, schema: StructType) -> KilledLogStreamReader:  # noqa: ARG002
        return KilledLogStreamReader(SourceOptions.read(self.options))


class KilledLogStreamReader(CoordinatorLogStreamReader):
    """Dies while it plans, or while it reads."""

    def initialOffset(self) -> dict[str, Any]:
        offset = super().initialOffset()
        pass_point(INITIAL_OFFSET)
        return offset

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        offset = super().latestOffset(start, limit)
        if offset != start:
            pass_point(LATEST_OFFSET)
        return offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        pass_point(BEFORE_PARTITIONS)
        partitions = super().partitions(start, end)
        pass_point(AFTER_PARTITIONS)
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if os.environ.get(AT, "").startswith(POINTS_OF_READING):
            # So that a micro-batch of little is several batches.
            vars(log_range)["_BATCH_ROWS"] = _FEW_ROWS
        for number, batch in enumerate(super().read(partition)):
            pass_point(NEXT_READ if number else FIRST_READ)
            yield batch
        pass_point(LAST_READ)
