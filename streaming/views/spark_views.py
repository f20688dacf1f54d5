"""A Spark batch data source of the views.

    CREATE TEMPORARY VIEW group_lag USING coordinator_state
    OPTIONS (path 'tables', view 'group_lag')

Each query reads the newest tables, or the tables as of the option `as_of`. Spark discovers the
source through the package `pyspark_coordinator_state`. It imports this module whenever it looks up
any Python source, so imports of heavy modules are inside the methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from streaming.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

FORMAT = "coordinator_state"


class CoordinatorStateViews(DataSource):
    """`spark.read.format("coordinator_state").option("view", "group_lag").load("tables")`.

    Options: `path` (the tables folder), `view`, and `as_of`, a version of `load_progress` or a
    time.
    """

    @classmethod
    def name(cls) -> str:
        """The name for `read.format` and `USING`."""
        return FORMAT

    def schema(self) -> StructType:
        """The view's columns in Spark's types."""
        from pyspark.sql.pandas.types import from_arrow_schema

        from streaming.views.definitions import VIEWS

        return from_arrow_schema(VIEWS[self._view])

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """A reader with one task: the tables are small, and a view is one computation."""
        if "path" not in self.options:
            raise ConfigurationError("the option path (the tables folder) is missing")
        return _ViewReader(self._view, self.options["path"], self.options.get("as_of"))

    @property
    def _view(self) -> str:
        from streaming.views.definitions import VIEWS

        name = self.options.get("view", "")
        if name not in VIEWS:
            raise ConfigurationError(
                f"the option view must be one of {', '.join(VIEWS)}, not {name!r}"
            )
        return name


@dataclass
class _ViewReader(DataSourceReader):
    view: str
    tables: str
    as_of: str | None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        from streaming.tables.reader import TableReader
        from streaming.views.definitions import VIEWS
        from streaming.views.snapshot import Snapshot

        rows = Snapshot(TableReader(self.tables, as_of=self.as_of)).queried(self.view)
        for batch in rows.to_batches():
            # Files have columns that are never null; Spark expects exactly the view's schema.
            yield batch.cast(VIEWS[self.view])


def create_views(session: SparkSession, tables: str) -> None:
    """Create a temporary view in the session for every view, with the same name."""
    from streaming.views.definitions import VIEWS

    path = tables.replace("\\", "\\\\").replace("'", "\\'")
    for name in VIEWS:
        session.sql(
            f"CREATE OR REPLACE TEMPORARY VIEW {name} USING {FORMAT} "
            f"OPTIONS (path '{path}', view '{name}')"
        )
