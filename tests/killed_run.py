"""The command line with fault points: `python -m tests.killed_run run --tables ...`.

The environment says where it dies; see `tests.fault_points`.
"""

from __future__ import annotations

from typing import Any

from deltalake import DeltaTable
from deltalake.table import TableOptimizer

from streaming.cli import main
from streaming.source import coordinator_log
from streaming.tables import creation, delta, folder, upkeep
from tests.fault_points import (
    COMPACTION,
    CREATION,
    DELETION_OF_DAYS,
    DELETION_OF_FILES,
    LOG_CLEAN_UP,
    TABLES_CREATED,
    TAKE_BACK,
    in_step,
    pass_point,
    with_points,
)
from tests.killed_source import KilledLogDataSource

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
    for write in (delta.merge, delta.append, delta.overwrite):
        written = with_points(write, lambda _tables, table, *_: table.name)
        vars(delta)[write.__name__] = written
    vars(delta)["delete_from"] = with_points(delta.delete_from, lambda *_: TAKE_BACK)
    create = folder.create

    def create_all(*args: Any, **kwargs: Any) -> None:
        create(*args, **kwargs)
        pass_point(TABLES_CREATED)

    vars(folder)["create"] = create_all
    vars(creation)["DeltaTable"] = _CreatedTable
    vars(upkeep)["DeltaTable"] = _TidiedTable
    vars(upkeep)["_delete"] = with_points(vars(upkeep)["_delete"], lambda *_: DELETION_OF_FILES)
    vars(upkeep)["MOST_SMALL_FILES"] = _FEW_FILES
    vars(coordinator_log)["CoordinatorLogDataSource"] = KilledLogDataSource


if __name__ == "__main__":
    _patch()
    main()
