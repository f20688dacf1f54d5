"""The checkpoint of a query: always a new one, because `load_progress` has the next offsets.

A query begins at the next offsets of the tables and writes its checkpoint to a folder of its own.
So there is one position, and no checkpoint can contradict it: not after a reload, a crash or a
power loss (Spark does not sync these files), and not if it is that of another cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX: Final = "query-"


def new_checkpoint(session: SparkSession, location: str) -> str:
    """Delete the checkpoints of earlier queries in a folder; the address of the next one.

    Other files in the folder stay. Spark writes checkpoints with Hadoop's file systems, and so they
    are deleted: delta-rs would leave S3A's markers of directories.

    Raises:
        Py4JJavaError: the folder cannot be read, or a file cannot be deleted.
    """
    context: Any = session.sparkContext
    folder = context._jvm.org.apache.hadoop.fs.Path(location)
    file_system = folder.getFileSystem(context._jsc.hadoopConfiguration())
    earlier = context._jvm.org.apache.hadoop.fs.Path(folder, f"{_PREFIX}*")
    for checkpoint in file_system.globStatus(earlier) or ():
        file_system.delete(checkpoint.getPath(), True)
    return f"{location}/{_PREFIX}{uuid4()}"
