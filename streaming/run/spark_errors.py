"""Conversion of errors of Spark's JVM and Python workers to errors of this program."""

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
    """Convert the errors that Py4J raises in the block.

    Raises:
        SparkError: Java code failed.
        ConfigurationError: the JVM has exited.
    """
    try:
        yield
    except Py4JJavaError as error:
        raise SparkError("; caused by ".join(java_reasons(error.java_exception))) from error
    except (Py4JError, ConnectionError) as error:
        if type(error) is Py4JError and not _has_ended(session):
            raise
        raise ConfigurationError(
            "Spark's JVM exited during the query, most likely out of memory: give it more memory "
            "(SPARK_DRIVER_MEMORY=2g) or smaller micro-batches (--max-records-per-trigger); "
            "the next start resumes where this one stopped"
        ) from error


def _has_ended(session: SparkSession) -> bool:
    """Return whether the JVM that this process started has exited.

    Py4J reports a closed connection as a missing Java class, so the error does not show it.
    """
    jvm: subprocess.Popen[bytes] | None = getattr(session.sparkContext._gateway, "proc", None)
    if jvm is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        jvm.wait(_JVM_END_S)
    return jvm.returncode is not None


def java_reasons(exception: Any) -> Iterator[str]:
    """Yield the first line of a Java exception, and of each cause with another text."""
    previous = ""
    while exception is not None:
        line = str(exception.toString()).splitlines()[0]
        if line not in previous:
            yield line
        previous, exception = line, exception.getCause()


def disk_full(text: str) -> TablesUnavailable | None:
    """Return an error if the disk of Spark's checkpoint or temporary files is full."""
    match = _NO_SPACE.search(text)
    return None if match is None else TablesUnavailable(f"Spark cannot write: {match[0].strip()}")


def own_error(text: str) -> Exception | None:
    """Rebuild an error of this program that a Python worker raised, from Spark's error text.

    A Python trace ends with the error itself, after its causes, so the last match counts.
    """
    matches = list(_OWN_ERROR.finditer(text))
    if not matches:
        return None
    match = matches[-1]
    if match["timeout"] is not None:
        return TimeoutError(match["timeout"].strip())
    if match["name"] == TopicMissing.__name__:
        # The planner saw the topic before, so its absence is a transient failure.
        return TimeoutError(match["text"].strip())
    kind = LogChanged if match["name"] in _LOG_CHANGED else ConfigurationError
    return kind(match["text"].strip())
