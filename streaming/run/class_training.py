"""`python -m streaming.run.class_training`: make the archive of the classes of Spark's JVM.

It runs a small query of the same kind as that of `run`, so that the JVM loads the same classes.
This is a step of the set-up of a virtual environment or an image.
"""

from __future__ import annotations

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
from streaming.jvm.class_archive import ON_CLASS_PATH, archive_of
from streaming.jvm.jars import locked
from streaming.jvm.java import find_java
from streaming.run.session import build_session
from streaming.run.stderr import write_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_JVM_ENDS_S = 120.0
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
        ConfigurationError: no JDK that Spark can run on, the cache folder is not writable, or the
            JVM did not end or wrote no archive.
    """
    archive = archive_of(find_java())
    with locked(archive):
        if archive.exists():
            return
        partial = archive.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        status = _train(partial)
        if status or not partial.exists():
            raise ConfigurationError(
                f"Spark's JVM wrote no archive of its classes (exit status {status})"
            )
        partial.replace(archive)


def _train(archive: Path) -> int:
    """Run a query in a JVM, wait until the JVM has ended, and return its exit status."""
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
    try:
        status: int = gateway.proc.wait(_JVM_ENDS_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        raise ConfigurationError(
            f"Spark's JVM did not end within {_JVM_ENDS_S:.0f} s, so there is no archive of its "
            "classes: Spark starts without it, about 2 s later"
        ) from None
    return status


def _collect(rows: DataFrame, _batch_id: int) -> None:
    rows.toArrow()


if __name__ == "__main__":
    for variable in ON_CLASS_PATH:
        # With other folders on the class path, no JVM would use the archive.
        os.environ.pop(variable, None)
    try:
        make_archive()
    except Exception as error:  # noqa: BLE001 - the set-up continues without the archive
        write_error(first_line(error))
        sys.exit(1)
