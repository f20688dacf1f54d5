"""Runs in the Spark session that tests share: to the end of the log, or beside a test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from streaming.local.broker.embedded import EmbeddedBroker
from streaming.run.query import run_query
from streaming.run.settings import RunSettings
from streaming.tables.schemas import LOAD_PROGRESS
from tests.support.brokers.embedded_cluster import EmbeddedCluster
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_START_S = 300.0


def run_settings(
    broker: EmbeddedBroker | EmbeddedCluster, folder: Path, **settings: Any
) -> RunSettings:
    """The settings of a run into `folder/tables`, with the checkpoint beside it."""
    return RunSettings.checked(
        **{
            "bootstrap_servers": broker.bootstrap_servers,
            "tables": str(folder / "tables"),
            "checkpoint": str(folder / "checkpoint"),
            **settings,
        }
    )


def run_to_end(
    broker: EmbeddedBroker | EmbeddedCluster, spark: SparkSession, folder: Path, **settings: Any
) -> Path:
    """Load the log to its end; return the tables folder."""
    jobs = ("lag_interval", "evaluation_interval", "upkeep_interval")
    settings = {**dict.fromkeys(jobs, "off"), **settings}
    run_query(run_settings(broker, folder, available_now=True, **settings), session=spark)
    return folder / "tables"


@contextmanager
def running(
    broker: EmbeddedBroker | EmbeddedCluster,
    spark: SparkSession,
    folder: Path,
    eventually: Eventually,
    **settings: Any,
) -> Iterator[Path]:
    """Sample logs once a second while the block runs; gives the tables folder, which is there."""
    with started(broker, spark, folder, **settings) as run:
        tables = folder / "tables"
        progress = LOAD_PROGRESS.path(str(tables))
        eventually(lambda: run.done() or DeltaTable.is_deltatable(progress), _START_S)
        yield tables


@contextmanager
def started(
    broker: EmbeddedBroker | EmbeddedCluster, spark: SparkSession, folder: Path, **settings: Any
) -> Iterator[Future[None]]:
    """A run in a thread while the block runs; afterwards it is stopped, and its error raised."""
    settings = {"lag_interval": "1 second", **settings}
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(
            run_query, run_settings(broker, folder, **settings), stop=stop, session=spark
        )
        try:
            yield run
        finally:
            stop.set()
        run.result(60)
