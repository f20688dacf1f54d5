"""A `run` after a power loss, which left the newest files of tables and checkpoint damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata

from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.clients.installed_command import run_command
from tests.support.tables.undisturbed import differences, load, table_rows

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def _newest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda file: (file.stat().st_mtime_ns, file.name))


def test_the_next_start_goes_on_without_help(fresh_broker: FreshBroker, tmp_path: Path) -> None:
    broker = fresh_broker()
    broker.create_offsets_topic()
    servers = broker.bootstrap_servers
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics(
        {"orders": {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True
    )
    tables, checkpoint = tmp_path / "tables", tmp_path / "checkpoint"

    def run_to_end() -> str:
        done = run_command(
            *("run", "--bootstrap-servers", servers, "--history", "all", "--available-now"),
            *("--tables", str(tables), "--checkpoint", str(checkpoint), "--lag-interval", "off"),
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    for committed_offset in range(3):
        for group in ("a", "b"):
            admin.alter_group_offsets(
                group, {TopicPartition("orders", 0): OffsetAndMetadata(committed_offset, "", -1)}
            )
        run_to_end()
    admin.close()
    os.truncate(_newest(tables / "group_offsets" / "_delta_log", "*.json"), 0)
    os.truncate(_newest(tables / "offset_commits", "**/*.parquet"), 100)
    _newest(tables / "coordinator_records" / "_delta_log", "*.json").unlink()
    os.truncate(_newest(checkpoint / "offsets", "[0-9]*"), 5)

    stderr = run_to_end()
    assert "a power loss damaged it or a file of its snapshot" in stderr
    assert "does not match the tables: it is incomplete" in stderr
    undisturbed = tmp_path / "undisturbed"
    load(servers, undisturbed)
    found = table_rows(tables)
    assert len(list(found["offset_commits"].elements())) == 6
    assert list(differences(found, table_rows(undisturbed))) == []
