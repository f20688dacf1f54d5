"""A Spark listener that reports the triggers of the query to the monitor."""

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
    """Reports each finished trigger; Spark reports idle triggers only every 10 s."""

    def __init__(self, monitor: RunMonitor) -> None:
        self._monitor = monitor

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: the start of a query does not show that it makes progress."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._monitor.triggered(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: ARG002
        self._monitor.triggered()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing: the thread that waits for the query handles its end."""


@contextmanager
def listening(session: SparkSession, monitor: RunMonitor) -> Iterator[None]:
    """Report the session's triggers to the monitor while the block runs."""
    listener = QueryListener(monitor)
    session.streams.addListener(listener)
    try:
        yield
    finally:
        # The JVM may have exited.
        with suppress(Py4JError, ConnectionError):
            session.streams.removeListener(listener)
