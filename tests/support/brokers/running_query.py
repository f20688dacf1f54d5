"""A run beside a test, in the session that tests share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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


@contextmanager
def running(
    broker: EmbeddedBroker | EmbeddedCluster,
    spark: SparkSession,
    folder: Path,
    eventually: Eventually,
    *,
    bootstrap_servers: str = "",
    **settings: Any,
) -> Iterator[Path]:
    """Sample logs once a second while the block runs; gives the tables folder, which is there."""
    tables = folder / "tables"
    run_settings = RunSettings(
        bootstrap_servers=bootstrap_servers or broker.bootstrap_servers,
        tables=str(tables),
        checkpoint=str(folder / "checkpoint"),
        lag_interval="1 second",
        **settings,
    )
    stop = threading.Event()
    is_table = DeltaTable.is_deltatable
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(run_query, run_settings, stop=stop, session=spark)
        try:
            eventually(lambda: run.done() or is_table(LOAD_PROGRESS.path(run_settings.tables)), 120)
            yield tables
        finally:
            stop.set()
        run.result(60)
