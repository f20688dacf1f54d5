"""Two runs on one folder of an object store, as a rolling update starts them.

`unit/tables/test_writer_epoch.py` lets a newer writer take over at any moment.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streaming.errors import ConfigurationError, WriterFenced
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from tests.support.brokers.commits import commit, create_topic
from tests.support.brokers.running_query import run_to_end, started
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TABLES = "s3a://bucket/tables"
GROUP = TOPIC = "two-runs"


def history() -> list[int]:
    """The committed offsets of the group; none while the tables are being created."""
    try:
        rows = TableReader(TABLES).read("offset_commits", filters=[("group_id", "=", GROUP)])
    except ConfigurationError:
        return []
    return sorted(rows["committed_offset"].to_pylist())


@pytest.mark.usefixtures("s3")
def test_the_older_run_ends_though_it_rests(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    create_topic(broker, TOPIC)
    commit(broker, GROUP, TOPIC, 1)
    settings = {"tables": TABLES, "history": "all", "upkeep_interval": "3 seconds"}
    with (
        pytest.raises(WriterFenced, match=f"another writer has taken over {TABLES} .*newer"),
        started(broker, spark, tmp_path / "older", **settings) as older,
    ):
        eventually(lambda: older.done() or history() == [1], 300)
        open_for_writing(TABLES, "newer")
        eventually(older.done, 120)
    commit(broker, GROUP, TOPIC, 2)
    run_to_end(broker, spark, tmp_path / "newer", **settings)
    assert history() == [1, 2]
