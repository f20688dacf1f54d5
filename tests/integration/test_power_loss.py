"""A `run` after a power loss, which left the newest files of tables and checkpoint damaged."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.commits import commit, create_topic, rows_of_group
from tests.support.brokers.running_query import run_to_end
from tests.support.tables.undisturbed import differences, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TOPIC = "power-loss"


def _newest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda file: (file.stat().st_mtime_ns, file.name))


def test_the_next_start_goes_on_without_help(
    quiet_broker: EmbeddedBroker,
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    create_topic(quiet_broker, TOPIC)
    for committed_offset in range(3):
        for group in ("power-a", "power-b"):
            commit(quiet_broker, group, TOPIC, committed_offset)
        tables = run_to_end(quiet_broker, spark, tmp_path, history="all")
    checkpoint = tmp_path / "checkpoint"
    os.truncate(_newest(tables / "group_offsets" / "_delta_log", "*.json"), 0)
    os.truncate(_newest(tables / "offset_commits", "**/*.parquet"), 100)
    _newest(tables / "coordinator_records" / "_delta_log", "*.json").unlink()
    os.truncate(_newest(checkpoint / "offsets", "[0-9]*"), 5)

    with caplog.at_level(logging.INFO, "streaming"):
        run_to_end(quiet_broker, spark, tmp_path, history="all")
    assert "a power loss damaged it or a file of its snapshot" in caplog.text
    assert "does not match the tables: it is incomplete" in caplog.text
    assert len(rows_of_group(tables, "offset_commits", "power-a")) == 3
    undisturbed = run_to_end(quiet_broker, spark, tmp_path / "undisturbed", history="all")
    assert list(differences(table_rows(tables), table_rows(undisturbed))) == []
