"""The command line with fault points: `python -m tests.kills.killed_run run --tables ...`.

The environment says where it dies; see `tests.kills.fault_points`.
"""

from __future__ import annotations

import sys
from typing import Any

from deltalake import DeltaTable
from deltalake.table import TableOptimizer

from streaming.cli.main import main
from streaming.engine.spark.spark_engine import SparkEngine
from streaming.engine.spark.spark_writes import SparkWrites
from streaming.source import coordinator_log
from streaming.tables import creation, maintenance, writer_epoch
from streaming.tables.schemas import PENDING_OFFSETS, Table
from streaming.tables.writer import Writer
from tests.kills.fault_points import (
    COMPACTION,
    CREATION,
    DELETION_OF_DAYS,
    DELETION_OF_FILES,
    FENCE,
    LOG_CLEAN_UP,
    PLANNING,
    ROLL_BACK,
    in_step,
    with_points,
)
from tests.kills.killed_source import KilledLogDataSource

_FEW_FILES = 2


class _CreatedTable(DeltaTable):
    @classmethod
    def create(cls, *args: Any, **kwargs: Any) -> DeltaTable:
        with in_step(CREATION):
            return DeltaTable.create(*args, **kwargs)


class _TidiedTable(DeltaTable):
    def delete(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        with in_step(DELETION_OF_DAYS):
            return super().delete(*args, **kwargs)

    def cleanup_metadata(self) -> None:
        with in_step(LOG_CLEAN_UP):
            super().cleanup_metadata()

    @property
    def optimize(self) -> TableOptimizer:
        return _Optimizer(self)


class _Optimizer(TableOptimizer):
    def compact(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        with in_step(COMPACTION):
            return super().compact(*args, **kwargs)


def _patch() -> None:
    def written(_writer: Writer | SparkWrites, table: Table, *_rest: Any) -> str:
        return table.name

    for method, step in (
        (SparkEngine._planned, lambda *_: PLANNING),
        (SparkWrites.write, written),
        (SparkWrites.replace_pending, lambda *_: PENDING_OFFSETS.name),
        (Writer.merge, written),
        (Writer.append, written),
        (Writer.overwrite, written),
        (Writer.restore, lambda *_: ROLL_BACK),
    ):
        owner = vars(sys.modules[method.__module__])[method.__qualname__.partition(".")[0]]
        setattr(owner, method.__name__, with_points(method, step))
    vars(writer_epoch)["_write_fence"] = with_points(
        vars(writer_epoch)["_write_fence"], lambda *_: FENCE
    )
    vars(creation)["DeltaTable"] = _CreatedTable
    vars(maintenance)["DeltaTable"] = _TidiedTable
    vars(maintenance)["_delete"] = with_points(
        vars(maintenance)["_delete"], lambda *_: DELETION_OF_FILES
    )
    vars(maintenance)["MOST_SMALL_FILES"] = _FEW_FILES
    vars(coordinator_log)["CoordinatorLogDataSource"] = KilledLogDataSource


if __name__ == "__main__":
    _patch()
    main()
