"""Tables and a checkpoint in an object store: an S3 on this machine, served by moto."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from coordinator_state.model.plain_commits import PlainCommits
from streaming.jvm.jars import cached_jars
from streaming.run.checkpoint import read_checkpoint
from streaming.tables.reader import TableReader
from streaming.verify.verify import verify_cluster
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.jar_sets import S3A
from tests.support.clients.installed_command import run_command

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

COMMITS, KEYS = 5_000, 500
TABLES, CHECKPOINT = "s3a://bucket/tables", "s3a://bucket/checkpoint"


def test_tables_and_checkpoint_are_in_an_object_store(
    s3: str, fresh_broker: FreshBroker, tmp_path: Path
) -> None:
    broker = fresh_broker()
    broker.create_offsets_topic()
    from_ms = time.time_ns() // 1_000_000 - 2 * COMMITS
    broker.load_logs(PlainCommits(count=COMMITS, key_count=KEYS, from_ms=from_ms).logs())
    run = [
        *("run", "--bootstrap-servers", broker.bootstrap_servers, "--available-now"),
        *("--tables", TABLES, "--checkpoint", CHECKPOINT),
    ]

    without_jars = run_command(*run)
    assert without_jars.returncode == 3
    assert "Class org.apache.hadoop.fs.s3a.S3A not found" in without_jars.stderr.splitlines()[-1]

    conf = tmp_path / "conf"
    conf.mkdir()
    jars = ",".join(map(str, cached_jars(S3A)))
    (conf / "spark-defaults.conf").write_text(
        f"spark.jars {jars}\n"
        f"spark.hadoop.fs.s3a.endpoint {s3}\n"
        "spark.hadoop.fs.s3a.endpoint.region us-east-1\n"
        "spark.hadoop.fs.s3a.path.style.access true\n"
    )
    env = {**os.environ, "SPARK_CONF_DIR": str(conf)}
    ran = run_command(*run, env=env)
    assert ran.returncode == 0, ran.stderr
    first = read_checkpoint(CHECKPOINT)
    assert first is not None
    assert sum(first.next_offsets.values()) == COMMITS

    # The same commits and as many more: the query goes on behind the first ones.
    broker.load_logs(PlainCommits(count=2 * COMMITS, key_count=KEYS, from_ms=from_ms).logs())
    broker.wait_until_loaded()
    ran = run_command(*run, env=env)
    assert ran.returncode == 0, ran.stderr
    assert f"micro-batch 1: {COMMITS} records read" in ran.stderr
    second = read_checkpoint(CHECKPOINT)
    assert second is not None
    assert second.query_id == first.query_id
    assert sum(second.next_offsets.values()) == 2 * COMMITS

    assert TableReader(TABLES).read("group_offsets").num_rows == KEYS
    verification = verify_cluster(broker.bootstrap_servers, TABLES)
    assert verification.is_equal
    assert verification.counts["offset"] == KEYS
