"""`run` on a cluster whose `__consumer_offsets` does not exist yet."""

from __future__ import annotations

import signal
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata

from streaming.errors import ConfigurationError
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_OFFSETS, TABLES
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.clients.installed_command import command_of, run_command
from tests.support.eventually import Eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

MISSING = "there is no topic __consumer_offsets at "


def rows_of(tables: Path, table: str) -> int:
    try:
        return TableReader(str(tables)).read(table).num_rows
    except ConfigurationError:  # it is being created
        return -1


def test_it_waits_for_the_first_group(
    fresh_broker: FreshBroker, tmp_path: Path, eventually: Eventually
) -> None:
    broker = fresh_broker()
    tables = tmp_path / "tables"
    arguments = [
        *("run", "--bootstrap-servers", broker.bootstrap_servers),
        *("--tables", str(tables), "--checkpoint", str(tmp_path / "checkpoint")),
    ]
    ended = run_command(*arguments, "--available-now")
    assert ended.returncode == 0, ended.stderr
    (line,) = [line for line in ended.stderr.splitlines() if MISSING in line]
    assert line.endswith("; the tables stay empty")
    assert {rows_of(tables, table.name) for table in TABLES} == {0}

    with subprocess.Popen(command_of(*arguments), stderr=subprocess.PIPE, text=True) as live:
        try:
            assert live.stderr is not None
            line = next(line for line in live.stderr if MISSING in line)
            assert line.endswith("; waiting for it\n")
            with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
                admin.create_topics(
                    {"orders": {"num_partitions": 1, "replication_factor": 1}},
                    wait_for_metadata=True,
                )
                broker.create_offsets_topic()
                committed = {TopicPartition("orders", 0): OffsetAndMetadata(7, "", -1)}
                admin.alter_group_offsets("first", committed)
            eventually(lambda: rows_of(tables, GROUP_OFFSETS.name) == 1, 120)
            live.send_signal(signal.SIGINT)
            rest = live.stderr.read()
            assert live.wait(60) == 0, rest
        finally:
            live.kill()
    assert MISSING not in rest
    assert "reloading log partitions" not in rest
    assert TableReader(str(tables)).topic_id


def test_ctrl_c_ends_the_wait(fresh_broker: FreshBroker, tmp_path: Path) -> None:
    arguments = [
        *("run", "--bootstrap-servers", fresh_broker().bootstrap_servers),
        *("--tables", str(tmp_path / "tables"), "--checkpoint", str(tmp_path / "checkpoint")),
    ]
    with subprocess.Popen(command_of(*arguments), stderr=subprocess.PIPE, text=True) as live:
        try:
            assert live.stderr is not None
            next(line for line in live.stderr if MISSING in line)
            live.send_signal(signal.SIGINT)
            rest = live.stderr.read()
            assert live.wait(60) == 0, rest
        finally:
            live.kill()
