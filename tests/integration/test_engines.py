"""Both engines on a real broker: equal tables, also if a folder changes from one to the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streaming.local.broker.embedded import EmbeddedBroker
from streaming.local.demo.groups import BROKER_PROPERTIES, Clients, create_topics
from streaming.local.demo.traffic import Traffic
from streaming.run.query import run_query
from streaming.run.settings import EngineOption, RunSettings
from streaming.verify.verify import verify_cluster
from tests.support.clients.odd_traffic import OddTraffic
from tests.support.eventually import Eventually
from tests.support.tables.undisturbed import differences, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(folder=tmp_path / "broker", properties=BROKER_PROPERTIES) as broker:
        broker.create_offsets_topic()
        create_topics(Clients(broker.bootstrap_servers))
        yield broker


class Folders:
    """Tables folders that are loaded to the end of the log, each time with the engine named."""

    def __init__(self, broker: EmbeddedBroker, spark: SparkSession, folder: Path) -> None:
        self._servers = broker.bootstrap_servers
        self._spark = spark
        self._folder = folder

    def load(self, name: str, engine: EngineOption) -> str:
        settings = RunSettings(
            bootstrap_servers=self._servers,
            tables=str(self._folder / name),
            history="all",
            available_now=True,
            lag_interval="off",
            upkeep_interval="off",
            engine=engine,
        )
        run_query(settings, session=self._spark)
        return settings.tables


def test_engines_write_equal_tables(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    folders = Folders(broker, spark, tmp_path)
    engines: tuple[EngineOption, ...] = ("driver", "spark")
    with OddTraffic(broker.bootstrap_servers) as odd:
        for engine in engines:
            with closing(Traffic(broker.bootstrap_servers, step_interval_s=0.05)) as traffic:
                traffic.start()
                eventually(lambda: not traffic.not_demonstrated, 120)
                traffic.stop(60)
            changing = folders.load("changing", engine)
        odd.rest()
        changing = folders.load("changing", "driver")
        of_driver = table_rows(folders.load("driver", "driver"))
        of_spark = folders.load("spark", "spark")
        for tables in (changing, of_spark):
            assert list(differences(table_rows(tables), of_driver)) == []
            verified = verify_cluster(broker.bootstrap_servers, tables, timeout_s=120)
            assert not verified.behind
            assert list(verified.differences) == []
    assert of_driver["group_members"].total() > 0
    assert of_driver["group_events"].total() > 5
