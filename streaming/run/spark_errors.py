"""Errors of Spark's JVM and of its Python workers, named by their cause."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError, Py4JJavaError

from streaming.errors import (
    ConfigurationError,
    LogChanged,
    SparkError,
    TablesUnavailable,
    TopicMissing,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JVM_END_S: Final = 5.0
_OWN_ERROR: Final = re.compile(
    r"streaming\.errors\.(?P<name>\w+): (?P<text>.+)|^TimeoutError: (?P<timeout>.+)", re.MULTILINE
)
_LOG_CHANGED: Final = ("LogChanged", "LogTruncated")
_NO_SPACE: Final = re.compile(r"^.*No space left on device.*$", re.MULTILINE)


@contextmanager
def living_jvm(session: SparkSession) -> Iterator[None]:
    """Name the errors of Spark's JVM, and its end.

    Raises:
        SparkError: Java code failed.
        ConfigurationError: the JVM has ended.
    """
    try:
        yield
    except Py4JJavaError as error:
        raise SparkError("; caused by ".join(_reasons(error.java_exception))) from error
    except (Py4JError, ConnectionError) as error:
        if type(error) is Py4JError and not _has_ended(session):
            raise
        raise ConfigurationError(
            "Spark's JVM has ended under the query, most likely for want of memory: give it more "
            "(SPARK_DRIVER_MEMORY=2g) or have it do less at a time (--max-records-per-trigger); "
            "the next start goes on where this one was"
        ) from error


def _has_ended(session: SparkSession) -> bool:
    """Whether the JVM that this process started has ended.

    Py4J takes a closed connection for a Java class that does not exist.
    """
    jvm: subprocess.Popen[bytes] | None = getattr(session.sparkContext._gateway, "proc", None)
    if jvm is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        jvm.wait(_JVM_END_S)
    return jvm.returncode is not None


def _reasons(exception: Any) -> Iterator[str]:
    """The first line of a Java exception, and of each cause that says more."""
    said = ""
    while exception is not None:
        line = str(exception.toString()).splitlines()[0]
        if line not in said:
            yield line
        said, exception = line, exception.getCause()


def disk_full(text: str) -> TablesUnavailable | None:
    """The error of a disk without space for Spark's checkpoint or its temporary files."""
    found = _NO_SPACE.search(text)
    return None if found is None else TablesUnavailable(f"Spark cannot write: {found[0].strip()}")


def own_error(text: str) -> Exception | None:
    """The error of this program that a Python worker raised and Spark passed on as text.

    A trace begins with the causes of an error and ends with the error itself.
    """
    matches = list(_OWN_ERROR.finditer(text))
    if not matches:
        return None
    found = matches[-1]
    if found["timeout"] is not None:
        return TimeoutError(found["timeout"].strip())
    if found["name"] == TopicMissing.__name__:
        # The planner saw it.
        return TimeoutError(found["text"].strip())
    kind = LogChanged if found["name"] in _LOG_CHANGED else ConfigurationError
    return kind(found["text"].strip())
