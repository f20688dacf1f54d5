"""Failures of a query that restart it, and those that end it."""

from __future__ import annotations

import threading
import traceback
from contextlib import nullcontext

import pytest
from pyspark.errors import StreamingQueryException

from streaming.errors import (
    ConfigurationError,
    LogChanged,
    LogTruncated,
    SparkError,
    TablesUnavailable,
)
from streaming.run import supervision
from streaming.run.spark_errors import disk_full, own_error
from streaming.run.supervision import Supervisor
from tests.support.eventually import Eventually

NO_BROKER, FULL_DISK = TimeoutError("no broker"), TablesUnavailable("a full disk")
FAILED = SparkError("a task")
TRUNCATED = LogTruncated(topic="t", log_partition=0, record_offset=1, log_start=2, log_end=3)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "_LONGEST_BACKOFF_S", 0.0)


class Failing:
    """A query that fails with these errors one after the other, and then ends.

    Before each it finished some micro-batches, or none.
    """

    def __init__(self, *errors: Exception, micro_batches: int = 0) -> None:
        self.errors = list(errors)
        self.micro_batches = micro_batches
        self.finished = -1
        self.starts = 0

    def __call__(self) -> None:
        self.starts += 1
        self.finished += self.micro_batches
        if self.errors:
            raise self.errors.pop(0)


def supervised(query: Failing, max_restarts: int = 2) -> None:
    Supervisor(max_restarts, threading.Event()).run(query, lambda: query.finished)


@pytest.mark.parametrize(
    ("errors", "max_restarts", "starts"),
    [
        ([FAILED], 0, None),
        ([FAILED] * 2, 2, 3),
        ([FAILED] * 3, 2, None),
        # Outages do not count, however long they last.
        ([NO_BROKER] * 20 + [FAILED] + [NO_BROKER] * 20, 2, 42),
        ([FULL_DISK] * 1_500, 2, 1_501),
        ([NO_BROKER], 0, None),
        ([FULL_DISK], 0, None),
        # Log partitions are loaded again.
        ([TRUNCATED], 2, 2),
        # A person must correct it.
        ([ConfigurationError("no such topic")], 2, None),
        ([ConnectionRefusedError("the JVM is gone")], 2, None),
    ],
)
def test_a_query_that_failed_restarts_or_ends(
    errors: list[Exception], max_restarts: int, starts: int | None
) -> None:
    """`starts` is None if the last error ends it."""
    query = Failing(*errors)
    with pytest.raises(type(errors[-1])) if starts is None else nullcontext():
        supervised(query, max_restarts)
    assert query.starts == (len(errors) if starts is None else starts)


def test_a_finished_micro_batch_resets_the_count() -> None:
    query = Failing(*([FAILED] * 9), micro_batches=1)
    supervised(query)
    assert query.starts == 10


def test_a_restart_is_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervision, "_FIRST_BACKOFF_S", 0.001)
    monkeypatch.setattr(supervision, "_LONGEST_BACKOFF_S", 0.002)
    supervised(Failing(StreamingQueryException("a task\nand its trace"), FULL_DISK, FULL_DISK))
    assert [record.getMessage() for record in caplog.records] == [
        "the query failed (a task); restarting it in 0.001 s (1 of 2)",
        *["the query failed (a full disk); restarting it in 0.002 s"] * 2,
    ]


def test_a_request_to_stop_ends_the_pause(
    monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    for name in ("_FIRST_BACKOFF_S", "_LONGEST_BACKOFF_S"):
        monkeypatch.setattr(supervision, name, 3_600.0)
    query, stop = Failing(FAILED), threading.Event()
    supervisor = Supervisor(2, stop)
    thread = threading.Thread(target=lambda: supervisor.run(query, lambda: -1))
    thread.start()
    eventually(lambda: supervisor.restarts == 1)
    stop.set()
    thread.join(60)
    assert not thread.is_alive()
    assert query.starts == 1


def test_the_error_of_a_worker_is_the_last_one_of_its_trace() -> None:
    def trace_of(error: Exception) -> str:
        return "".join(traceback.format_exception(error)) + "\n\tat org.apache.spark.Task.run"

    for first, last in (("refused", "waited"), ("waited", "refused")):
        errors = {"refused": ConfigurationError("refused"), "waited": TimeoutError("waited")}
        errors[last].__cause__ = errors[first]
        error = own_error(trace_of(errors[last]))
        assert (type(error), str(error)) == (type(errors[last]), last)
    assert isinstance(own_error("x: streaming.errors.LogTruncated: gone"), LogChanged)
    assert own_error(trace_of(OSError("x"))) is None


def test_a_full_disk_of_spark_is_a_transient_failure() -> None:
    error = disk_full("Job aborted\njava.io.IOException: No space left on device\n\tat Disk.write")
    assert isinstance(error, TablesUnavailable)
    assert str(error) == "Spark cannot write: java.io.IOException: No space left on device"
    assert disk_full("Job aborted") is None
