"""`python -m streaming.run.class_training`: make the archive of the classes of Spark's JVM.

It runs a small query of the same kind as that of `run`, so that the JVM loads the same classes. For
a virtual environment or an image this is a step of the set-up. Otherwise the first `run` starts it
as a process of low priority: the JVM of `run` ends much later, and may be killed then.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from streaming.errors import ConfigurationError, first_line
from streaming.jvm.class_archive import archive_of
from streaming.jvm.jars import locked
from streaming.jvm.java import find_java
from streaming.run.session import build_session
from streaming.run.stderr import write_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

_JVM_ENDS_S = 120.0
_LOWEST_PRIORITY = 19
_ONE_ROW = pa.record_batch({"rows": pa.array([b"row"])})


class _OneRow(DataSource):
    """A stream of one row."""

    @classmethod
    def name(cls) -> str:
        return "one_row"

    def schema(self) -> str:
        return "rows binary"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002
        return _OneRowReader()


class _OneRowReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"row": 0}

    def latestOffset(self, *_limits: Any) -> dict[str, int]:
        return {"row": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(row) for row in range(start["row"], end["row"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        yield _ONE_ROW


def make_archive() -> None:
    """Make the archive, unless there is one.

    Raises:
        ConfigurationError: no JDK that Spark can run on, or the cache folder is not writable.
    """
    archive = archive_of(find_java())
    with locked(archive):
        if archive.exists():
            return
        partial = archive.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        try:
            _train(partial)
        finally:
            # The next start shall not try again, also if there is no archive.
            partial.touch()
            partial.replace(archive)


def make_in_background() -> None:
    """Start a process that makes the archive, if the JVM of this process has none."""
    archive = archive_of(Path(os.environ["JAVA_HOME"], "bin", "java"))
    if archive.exists():
        return
    logger.info(
        "storing the classes of Spark in %(archive)s (once, about 150 MB): later starts are faster",
        {"archive": str(archive)},
    )
    subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _train(archive: Path) -> None:
    """Run a query in a JVM, and wait until the JVM has ended."""
    session = build_session(archive_to=archive)
    with tempfile.TemporaryDirectory(prefix="coordinator-state-classes-") as checkpoint:
        session.dataSource.register(_OneRow)
        rows = session.readStream.format(_OneRow.name()).load()
        query = rows.writeStream.option("checkpointLocation", checkpoint).foreachBatch(_collect)
        query.trigger(availableNow=True).start().awaitTermination()
    gateway: Any = SparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_JVM_ENDS_S)


def _collect(rows: DataFrame, _batch_id: int) -> None:
    rows.toArrow()


if __name__ == "__main__":
    os.nice(_LOWEST_PRIORITY)
    try:
        make_archive()
    except ConfigurationError as error:
        write_error(first_line(error))
        sys.exit(1)
