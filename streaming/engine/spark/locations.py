"""The tables folder as Spark names it, and the folder for staged rows within it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streaming.tables.locations import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STAGED = "staged"


def spark_location(tables: str) -> str:
    """The address of a tables folder for Spark, which would look for a path on its own store."""
    path = local_path(tables)
    return tables.rstrip("/") if path is None else path.as_uri()


@dataclass(frozen=True, slots=True)
class StagingFolder:
    """The folder `staged` of a tables folder: rows that belong to no table yet.

    They are in files instead of Spark's cache, because all writes of a micro-batch must have the
    same rows, also after an executor is lost. To read the log again could give fewer: the broker
    may have compacted it meanwhile.
    """

    session: SparkSession
    tables: str

    def of(self, number: int) -> str:
        """The folder of one micro-batch or reload, by a write number."""
        return f"{spark_location(self.tables)}/{_STAGED}/{number}"

    def delete(self, folder: str) -> None:
        """Delete a folder of staged rows, if it exists."""
        context: Any = self.session.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(folder)
        path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)

    def delete_all(self) -> None:
        """Delete the rows that earlier processes have staged."""
        self.delete(f"{spark_location(self.tables)}/{_STAGED}")
