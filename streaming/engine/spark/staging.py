"""The folder `staged` of a tables folder: rows that belong to no table yet.

They are in files instead of Spark's cache, because all steps of a micro-batch must have the same
rows, also after an executor is lost. To read the log again could give fewer: the broker may have
compacted it meanwhile.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable
from py4j.protocol import Py4JError

from streaming.engine.spark.spark_tables import spark_location
from streaming.tables.delta import reading
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import NUMBER_BITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STAGED = "staged"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Rows in the files of a staging folder.

    Delta Lake wrote the folder: `files` are those of the task attempts that Spark committed. Spark
    reads them as plain files, because Delta Lake would run jobs for the log of the folder that take
    longer than the files.

    Attributes:
        schema: the schema of the rows.
        files: the files as Spark names them, by the value of the column that the folder is
            partitioned by. Without such a column the value is "".
    """

    schema: pa.Schema
    files: Mapping[str, Sequence[str]]

    def read(self, session: SparkSession, name: str | None = None) -> DataFrame:
        """The rows, or of a partitioned folder the struct `name` of the rows with this value.

        A value without rows has no files.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        if name is None and self.files.keys() - {""}:
            raise ValueError("rows that are partitioned are read by the value of the column")
        read = self.schema if name is None else pa.schema([self.schema.field(name)])
        schema = from_arrow_schema(read)
        files = self.files.get(name or "", ())
        if not files:
            rows = session.createDataFrame([], schema)
        else:
            # A folder may have characters of patterns in its name.
            plain = session.read.option("__globPaths__", "false")
            rows = plain.schema(schema).parquet(*files)
        return rows if name is None else rows.select(f"{name}.*")


@dataclass(frozen=True, slots=True)
class StagingFolder:
    """The folder `staged` of a tables folder."""

    session: SparkSession
    writer: Writer

    def new(self) -> str:
        """A folder that no one else uses: its name is a write number."""
        return str(self.writer.next_number())

    def write(
        self, rows: DataFrame, folder: str, schema: pa.Schema, partitioned_by: str | None = None
    ) -> StagedRows:
        """Stage rows of this schema as files.

        Raises:
            TablesUnavailable: the files cannot be read.
        """
        by = [] if partitioned_by is None else [partitioned_by]
        address = self._address(folder)
        plain = rows.write.format("delta").option("delta.columnMapping.mode", "none")
        plain.partitionBy(*by).save(address)
        path = f"{self.writer.tables.rstrip('/')}/{_STAGED}/{folder}"
        with reading(path):
            added = pa.table(DeltaTable(path).get_add_actions(flatten=True))
        values = added[f"partition.{partitioned_by}"] if by else pa.array([""] * added.num_rows)
        files: dict[str, list[str]] = defaultdict(list)
        for value, name in zip(values.to_pylist(), added["path"].to_pylist(), strict=True):
            files[value].append(f"{address}/{name}")
        return StagedRows(schema, files)

    def delete(self, folder: str) -> None:
        """Delete a folder of staged rows, if it exists; a failure is logged."""
        address = self._address(folder)
        path = self._path(address)
        try:
            self._file_system(path).delete(path, True)
        except Py4JError as error:
            first, *_ = str(error).splitlines()
            logger.warning(
                "cannot delete %(folder)s: %(error)s", {"folder": address, "error": first}
            )

    def delete_earlier(self) -> None:
        """Delete the rows that earlier writers of the folder have staged.

        A newer writer may have taken over already; its rows stay.
        """
        path = self._path(self._address())
        system = self._file_system(path)
        if system.exists(path):
            for status in system.listStatus(path):
                name = str(status.getPath().getName())
                if not name.isdecimal() or int(name) >> NUMBER_BITS <= self.writer.epoch.number:
                    self.delete(name)

    def _address(self, *folder: str) -> str:
        return "/".join([spark_location(self.writer.tables), _STAGED, *folder])

    def _path(self, address: str) -> Any:
        context: Any = self.session.sparkContext
        return context._jvm.org.apache.hadoop.fs.Path(address)

    def _file_system(self, path: Any) -> Any:
        context: Any = self.session.sparkContext
        return path.getFileSystem(context._jsc.hadoopConfiguration())
