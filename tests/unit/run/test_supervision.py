"""What makes a query start again, and what ends it."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
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
from streaming.run.spark_errors import own_error
from streaming.run.supervision import Supervisor


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "_FIRST_BACKOFF_S", 0.001)
    monkeypatch.setattr(supervision, "_LONGEST_BACKOFF_S", 0.01)


class Failing:
    """A query that fails of these one after the other, and then ends.

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


def test_a_query_that_failed_starts_again(caplog: pytest.LogCaptureFixture) -> None:
    query = Failing(
        StreamingQueryException("a task\nand its trace"), TablesUnavailable("the store is away")
    )
    supervised(query)
    assert query.starts == 3
    first, second = (record.getMessage() for record in caplog.records)
    assert first == "the query failed (a task); restarting it in 0.001 s (1 of 2)"
    assert second == "the query failed (the store is away); restarting it in 0.002 s"


def test_it_gives_up_after_so_many_in_a_row() -> None:
    query = Failing(*(SparkError(str(number)) for number in range(5)))
    with pytest.raises(SparkError, match="2"):
        supervised(query)
    assert query.starts == 3


@pytest.mark.parametrize("error", [TimeoutError("no broker"), TablesUnavailable("a full disk")])
def test_outages_are_waited_for_as_long_as_they_last(error: Exception) -> None:
    query = Failing(*([error] * 20), SparkError("a"), *([error] * 20))
    supervised(query)
    assert query.starts == 42
    with pytest.raises(type(error)):
        supervised(Failing(error), max_restarts=0)


def test_an_outage_of_a_day_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "_LONGEST_BACKOFF_S", 0.0)
    query = Failing(*([TablesUnavailable("a full disk")] * 1_500))
    supervised(query)
    assert query.starts == 1_501


def test_a_finished_micro_batch_ends_the_row() -> None:
    query = Failing(*(SparkError(str(number)) for number in range(9)), micro_batches=1)
    supervised(query)
    assert query.starts == 10


@pytest.mark.parametrize(
    ("error", "starts"),
    [
        # A person must mend it.
        (ConfigurationError("no such topic"), 1),
        (ConnectionRefusedError("the JVM is gone"), 1),
        # It passes, or log partitions are loaded again.
        (LogTruncated(topic="t", log_partition=0, record_offset=1, log_start=2, log_end=3), 2),
        (TablesUnavailable("the disk is full"), 2),
    ],
)
def test_only_what_a_person_must_mend_ends_it(error: Exception, starts: int) -> None:
    query = Failing(error)
    with pytest.raises(type(error)) if starts == 1 else nullcontext():
        supervised(query)
    assert query.starts == starts


def test_no_restarts_are_none() -> None:
    query = Failing(SparkError("a"))
    with pytest.raises(SparkError):
        supervised(query, max_restarts=0)


def test_a_request_to_stop_ends_the_pause(
    monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]
) -> None:
    monkeypatch.setattr(supervision, "_FIRST_BACKOFF_S", 3_600.0)
    monkeypatch.setattr(supervision, "_LONGEST_BACKOFF_S", 3_600.0)
    query, stop = Failing(SparkError("a")), threading.Event()
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

    refused = ConfigurationError("the login is refused")
    waited_out = TimeoutError("cannot fetch for 2 s")
    for first, last in ((refused, waited_out), (waited_out, refused)):
        last.__cause__ = first
        found = own_error(trace_of(last))
        assert (type(found), str(found)) == (type(last), str(last))
        last.__cause__ = None
    assert isinstance(own_error("x: streaming.errors.LogTruncated: gone"), LogChanged)
    assert own_error(trace_of(OSError("x"))) is None
