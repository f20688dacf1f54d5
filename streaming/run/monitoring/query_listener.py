"""Spark tells what its query does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from streaming.run.monitoring.run_monitor import RunMonitor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class QueryListener(StreamingQueryListener):
    """Hands on each trigger that is over; Spark tells of those without news every ten seconds."""

    def __init__(self, monitor: RunMonitor) -> None:
        self._monitor = monitor

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing: the start of a query is no sign that it gets on."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._monitor.triggered(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: ARG002
        self._monitor.triggered()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Nothing: who waits for the query notices."""


@contextmanager
def listening(session: SparkSession, monitor: RunMonitor) -> Iterator[None]:
    """Have the session tell the monitor, as long as the block runs."""
    listener = QueryListener(monitor)
    session.streams.addListener(listener)
    try:
        yield
    finally:
        # The JVM may be gone.
        with suppress(Py4JError, ConnectionError):
            session.streams.removeListener(listener)
