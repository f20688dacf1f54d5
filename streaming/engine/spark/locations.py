"""The tables folder as Spark names it, and the folder for staged rows within it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from streaming.tables.locations import local_path
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import NUMBER_BITS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STAGED = "staged"

logger = logging.getLogger(__name__)


def spark_location(tables: str) -> str:
    """The address of a tables folder for Spark, which would look for a path on its own store."""
    path = local_path(tables)
    # Not `as_uri`: Hadoop takes an address literally, without percent-encoding.
    return tables.rstrip("/") if path is None else f"file://{path}"


@dataclass(frozen=True, slots=True)
class StagingFolder:
    """The folder `staged` of a tables folder: rows that belong to no table yet.

    They are in files instead of Spark's cache, because all steps of a micro-batch must have the
    same rows, also after an executor is lost. To read the log again could give fewer: the broker
    may have compacted it meanwhile.
    """

    session: SparkSession
    writer: Writer

    def new(self) -> str:
        """A folder that no one else uses: its name is a write number."""
        return f"{self._folder}/{self.writer.next_number()}"

    def delete(self, folder: str) -> None:
        """Delete a folder of staged rows, if it exists; a failure is logged."""
        path = self._path(folder)
        try:
            self._file_system(path).delete(path, True)
        except Py4JError as error:
            first, *_ = str(error).splitlines()
            logger.warning(
                "cannot delete %(folder)s: %(error)s", {"folder": folder, "error": first}
            )

    def delete_earlier(self) -> None:
        """Delete the rows that earlier writers of the folder have staged.

        A newer writer may have taken over already; its rows stay.
        """
        path = self._path(self._folder)
        system = self._file_system(path)
        if system.exists(path):
            for status in system.listStatus(path):
                name = str(status.getPath().getName())
                if not name.isdecimal() or int(name) >> NUMBER_BITS <= self.writer.epoch.number:
                    self.delete(f"{self._folder}/{name}")

    @property
    def _folder(self) -> str:
        return f"{spark_location(self.writer.tables)}/{_STAGED}"

    def _path(self, folder: str) -> Any:
        context: Any = self.session.sparkContext
        return context._jvm.org.apache.hadoop.fs.Path(folder)

    def _file_system(self, path: Any) -> Any:
        context: Any = self.session.sparkContext
        return path.getFileSystem(context._jsc.hadoopConfiguration())
