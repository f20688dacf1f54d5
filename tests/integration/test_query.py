"""The whole query on a real broker: restarts, lost checkpoints, refusals, other readers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import duckdb
import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata

from coordinator_state.replay.partitioner import partition_for
from streaming.errors import ConfigurationError
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS
from streaming.views.offset_fetch import offset_fetch
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.thrift_server import Metastore, thrift_server
from tests.support.clients.installed_command import command_of, run_command
from tests.support.eventually import Eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def quiet_broker(fresh_broker: FreshBroker) -> EmbeddedBroker:
    """A broker of its own: members of other tests' groups, once they time out, are written too."""
    quiet = fresh_broker()
    quiet.create_offsets_topic()
    return quiet


@pytest.fixture
def admin(quiet_broker: EmbeddedBroker) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=quiet_broker.bootstrap_servers)
    client.create_topics(
        {"query-orders": {"num_partitions": 2, "replication_factor": 1}}, wait_for_metadata=True
    )
    yield client
    client.close()


def _commit(admin: KafkaAdminClient, group: str, committed_offset: int) -> None:
    target = TopicPartition("query-orders", 0)
    admin.alter_group_offsets(group, {target: OffsetAndMetadata(committed_offset, "by hand", -1)})


def _run_to_end(
    broker: EmbeddedBroker,
    tables: Path,
    checkpoint: Path,
    *options: str,
    env: Mapping[str, str] | None = None,
) -> None:
    done = run_command(
        "run",
        "--bootstrap-servers",
        broker.bootstrap_servers,
        "--tables",
        str(tables),
        "--checkpoint",
        str(checkpoint),
        "--available-now",
        "--silent",
        *options,
        env=env,
    )
    assert done.returncode == 0, done.stderr


def _answer(tables: Path, group: str) -> int:
    (found,) = offset_fetch(str(tables), group, [("query-orders", 0)])
    assert found.error == "NONE"
    return found.committed_offset


def test_killed_and_restarted_then_without_its_checkpoint(
    quiet_broker: EmbeddedBroker, admin: KafkaAdminClient, tmp_path: Path, eventually: Eventually
) -> None:
    broker = quiet_broker
    tables, checkpoint = tmp_path / "tables", tmp_path / "checkpoint"
    _commit(admin, "query-a", 1)
    live = subprocess.Popen(
        command_of(
            "run",
            "--bootstrap-servers",
            broker.bootstrap_servers,
            "--tables",
            str(tables),
            "--checkpoint",
            str(checkpoint),
        ),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        eventually(lambda: _has_progress(tables), 120)
        _commit(admin, "query-a", 2)
        # Whatever it is doing, it dies with its JVM and its workers.
        os.killpg(live.pid, signal.SIGKILL)
    finally:
        if live.poll() is None:
            os.killpg(live.pid, signal.SIGKILL)
        live.wait()
    _commit(admin, "query-b", 3)
    _run_to_end(broker, tables, checkpoint)
    assert (_answer(tables, "query-a"), _answer(tables, "query-b")) == (2, 3)

    shutil.rmtree(checkpoint)
    _commit(admin, "query-a", 4)
    admin.delete_groups(["query-b"])
    metastore = Metastore.create(tmp_path / "metastore")
    in_catalog = ("--catalog", "monitoring")
    _run_to_end(broker, tables, checkpoint, *in_catalog, env=metastore.environment)
    assert (_answer(tables, "query-a"), _answer(tables, "query-b")) == (4, -1)
    _assert_history_is_whole(tables)
    _assert_other_engines_agree(tables)
    _assert_jdbc_agrees(metastore, tables)
    verified = run_command(
        "verify", "--bootstrap-servers", broker.bootstrap_servers, "--tables", str(tables)
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr

    # Other tables may have the checkpoint: theirs begin at the log start.
    _run_to_end(broker, tmp_path / "new", checkpoint)
    assert _answer(tmp_path / "new", "query-a") == 4
    _assert_refusals(broker, tables)


def _has_progress(tables: Path) -> bool:
    try:
        return TableReader(tables).read(LOAD_PROGRESS.name).num_rows > 0
    except ConfigurationError:  # the tables are being created
        return False


def _assert_history_is_whole(tables: Path) -> None:
    reader = TableReader(tables)
    history = [
        row
        for row in reader.read("offset_commits").to_pylist()
        if row["group_id"] in ("query-a", "query-b")
    ]
    places = [(row["log_partition"], row["record_offset"]) for row in history]
    assert len(set(places)) == len(places)
    seen = sorted(
        (row["group_id"], row["committed_offset"] or 0, row["is_tombstone"]) for row in history
    )
    assert seen == [
        ("query-a", 1, False),
        ("query-a", 2, False),
        ("query-a", 4, False),
        ("query-b", 0, True),
        ("query-b", 3, False),
    ]
    for row in reader.read(LOAD_PROGRESS.name).to_pylist():
        outcomes = ("applied", "superseded", "ignored", "quarantined", "pending")
        assert row["records_read"] == sum(row[f"records_{outcome}"] for outcome in outcomes)


def _assert_other_engines_agree(tables: Path) -> None:
    """DuckDB, over the Parquet files that delta-rs says are the table."""
    from deltalake import DeltaTable

    opened = DeltaTable(str(tables / "group_offsets"))
    assert (opened.protocol().min_reader_version, opened.protocol().min_writer_version) == (1, 2)
    found = duckdb.execute(
        "SELECT committed_offset, log_partition FROM read_parquet($files) WHERE group_id = $group",
        {"files": opened.file_uris(), "group": "query-a"},
    ).fetchall()
    assert found == [(4, partition_for("query-a"))]


def _assert_jdbc_agrees(metastore: Metastore, tables: Path) -> None:
    """The names that `--catalog` gave, and a view that one session makes for all."""
    with thrift_server(metastore) as server:
        (found,) = server.sql(
            "SELECT committed_offset FROM monitoring.group_offsets WHERE group_id = 'query-a'"
        )
        assert found == {"committed_offset": "4"}
        assert {"group_id": "query-a"} in server.sql(
            "SELECT group_id FROM monitoring.simple_groups"
        )
        server.sql(
            "CREATE GLOBAL TEMPORARY VIEW group_lag USING coordinator_state "
            f"OPTIONS (path '{tables}', view 'group_lag')"
        )
        select = "SELECT committed_offset, lag FROM global_temp.group_lag"
        (found,) = server.sql(f"{select} WHERE group_id = 'query-a'")
        assert found == {"committed_offset": "4", "lag": "0"}


def _assert_refusals(broker: EmbeddedBroker, tables: Path) -> None:
    """One clear line and exit 2, no stack trace."""
    cases = {
        "--semantics coordinator": ["--tables", str(tables), "--semantics", "scala"],
        "partitions, but no 50": ["--tables", str(tables), "--log-partitions", "50"],
    }
    for expected, options in cases.items():
        refused = run_command("run", "--bootstrap-servers", broker.bootstrap_servers, *options)
        assert refused.returncode == 2, refused.stderr
        assert expected in refused.stderr
        assert "Traceback" not in refused.stderr


def test_no_broker(fresh_broker: FreshBroker, tmp_path: Path) -> None:
    empty = fresh_broker()
    address = empty.bootstrap_servers
    empty.stop()
    gone = run_command("run", "--bootstrap-servers", address, "--tables", str(tmp_path / "t"))
    assert gone.returncode == 2, gone.stderr
    assert address in gone.stderr
    assert "Traceback" not in gone.stderr
