"""A job as users write them for `spark-submit`: a query in a session of their own.

Arguments: the brokers, the tables folder, the checkpoint, and the file for the report.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

import streaming
from coordinator_state import RunSettings, run_query


class Seen(StreamingQueryListener):
    """Keeps the names of the queries that start, and the rows of their micro-batches."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.rows: list[int] = []

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self.started.append(str(event.name))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self.rows.append(event.progress.numInputRows)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing to keep."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Nothing to keep."""


def program_of_executor(_number: int) -> str:
    import coordinator_state

    return str(coordinator_state.__file__)


def main(bootstrap_servers: str, tables: str, checkpoint: str, report: str) -> None:
    logging.basicConfig(format="%(message)s")
    logging.getLogger("streaming").setLevel(logging.INFO)
    session = SparkSession.builder.appName("a job of users").getOrCreate()
    seen = Seen()
    session.streams.addListener(seen)
    needed: dict[str, Any] = {
        "bootstrap_servers": bootstrap_servers,
        "tables": tables,
        "checkpoint": checkpoint,
        "available_now": True,
    }
    run_query(RunSettings.checked(engine="spark", **needed), session=session)
    # The second query goes on where the first one ended.
    run_query(RunSettings.checked(engine="auto", **needed), session=session)
    numbers = session.sparkContext.parallelize([0], 1)
    document = {
        "driver": streaming.__file__,
        "executor": numbers.map(program_of_executor).first(),
        "started": seen.started,
        "rows": seen.rows,
    }
    Path(report).write_text(json.dumps(document))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
