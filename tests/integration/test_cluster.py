"""The same command on a Spark cluster: executors on other machines read, the driver writes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from bench.equality import check_equality
from coordinator_state.model.plain_commits import PlainCommits
from tests.integration.command_line import run_command
from tests.integration.standalone_cluster import standalone_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.conftest import FreshBroker

# Seven JVMs start, on a machine that may have other things to do.
pytestmark = pytest.mark.timeout(900)

# More than one task is worth.
COMMITS, KEYS, GROUPS = 50_000, 2_000, 200


def test_a_cluster_makes_the_same_tables(fresh_broker: FreshBroker, tmp_path: Path) -> None:
    broker = fresh_broker()
    broker.create_offsets_topic()
    commits = PlainCommits(
        count=COMMITS, key_count=KEYS, from_ms=time.time_ns() // 1_000_000 - COMMITS
    )
    broker.load_logs(commits.logs())
    broker.wait_until_loaded()
    tables = str(tmp_path / "tables")
    with standalone_cluster(tmp_path / "cluster") as cluster:
        done = run_command(
            *("run", "--bootstrap-servers", broker.bootstrap_servers, "--tables", tables),
            *("--checkpoint", str(tmp_path / "checkpoint"), "--available-now"),
            *("--master", cluster.master),
            env=cluster.environment,
        )
        assert done.returncode == 0, done.stderr
        assert len(cluster.files_of_executors("coordinator_state_program.zip")) == 2
    equality = check_equality(
        tables,
        commits.last,
        bootstrap_servers=broker.bootstrap_servers,
        groups_sampled=GROUPS,
    )
    assert equality.is_equal, equality.summary
    assert equality.records_read == COMMITS
