"""Tables and a checkpoint in an object store: an S3 on this machine, served by moto."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyarrow.fs import FileSelector

from coordinator_state.model.plain_commits import PlainCommits
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.file_systems import file_system
from streaming.tables.reader import TableReader
from streaming.verify.verify import verify_cluster
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.object_store import served_object_store
from tests.support.clients.installed_command import run_command

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

COMMITS, KEYS = 5_000, 500
TABLES, CHECKPOINT = "s3a://bucket/tables", "s3a://bucket/checkpoint"

COMMIT_BESIDE_DELTA_RS = """
import threading
import pyarrow as pa
from deltalake import write_deltalake
from streaming.run.session import build_session

session = build_session(engine="spark", with_s3=True)
address = "s3a://bucket/both"
session.range(1).write.format("delta").save(address)

def append():
    for number in range(60):
        rows = pa.table({"id": pa.array([1_000 + number], pa.int64())})
        write_deltalake(address, rows, mode="append")

beside = threading.Thread(target=append)
beside.start()
for number in range(1, 16):
    session.range(number, number + 1).write.format("delta").mode("append").save(address)
beside.join()
session.stop()
"""


@pytest.mark.usefixtures("s3")
def test_both_engines_write_tables_and_checkpoint_in_an_object_store(
    fresh_broker: FreshBroker,
) -> None:
    broker = fresh_broker()
    broker.create_offsets_topic()
    from_ms = time.time_ns() // 1_000_000 - 3 * COMMITS
    run = [
        *("run", "--bootstrap-servers", broker.bootstrap_servers, "--available-now"),
        *("--tables", TABLES, "--checkpoint", CHECKPOINT),
    ]
    # Each time the same commits and as many more: the next query goes on behind the first ones.
    for number, engine in enumerate(("driver", "spark", "driver")):
        count = (number + 1) * COMMITS
        broker.load_logs(PlainCommits(count=count, key_count=KEYS, from_ms=from_ms).logs())
        broker.wait_until_loaded()
        ran = run_command(*run, "--engine", engine)
        assert ran.returncode == 0, ran.stderr
        assert f"micro-batch 0: {COMMITS} records read" in ran.stderr
        entries = file_system(CHECKPOINT).get_file_info(FileSelector(""))
        # S3A keeps a marker of the folder itself.
        assert [entry.base_name.startswith("query-") for entry in entries].count(True) == 1
        verification = verify_cluster(broker.bootstrap_servers, TABLES)
        assert verification.is_equal
        assert verification.counts["offset"] == KEYS
    assert TableReader(TABLES).read("group_offsets").num_rows == KEYS


@pytest.mark.usefixtures("s3")
def test_no_commit_of_spark_or_of_delta_rs_replaces_another() -> None:
    """With the log stores of Delta, three of eighty were lost."""
    subprocess.run([sys.executable, "-c", COMMIT_BESIDE_DELTA_RS], check=True)
    table = DeltaTable("s3a://bucket/both")
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [*range(16), *range(1_000, 1_060)]
    assert table.version() == 75


def test_a_store_without_conditional_writes_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broker: EmbeddedBroker
) -> None:
    servers = broker.bootstrap_servers
    run = ["run", "--bootstrap-servers", servers, "--available-now", "--tables", TABLES]
    with served_object_store(writes="any") as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        ran = run_command(*run, "--checkpoint", str(tmp_path), "--engine", "spark")
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].startswith(
        f"Error: Spark cannot use {TABLES}: the store replaces an object that it was told to "
    )
