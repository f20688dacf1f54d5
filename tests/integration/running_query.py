"""A run beside a test, in the session that tests share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from streaming.broker.embedded import EmbeddedBroker
from streaming.config import RunSettings
from streaming.query import run_query
from streaming.tables.schemas import LOAD_PROGRESS
from tests.conftest import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def running(
    broker: EmbeddedBroker, spark: SparkSession, folder: Path, eventually: Eventually
) -> Iterator[Path]:
    """Sample logs once a second while the block runs; gives the tables folder, which is there."""
    tables = folder / "tables"
    settings = RunSettings(
        bootstrap_servers=broker.bootstrap_servers,
        tables=str(tables),
        checkpoint=str(folder / "checkpoint"),
        lag_interval="1 second",
    )
    stop = threading.Event()
    is_table = DeltaTable.is_deltatable
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(run_query, settings, stop=stop, session=spark)
        try:
            eventually(lambda: run.done() or is_table(LOAD_PROGRESS.path(settings.tables)), 120)
            yield tables
        finally:
            stop.set()
        run.result(60)
