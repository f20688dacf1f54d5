"""A job for `spark-submit`, with the wheel as its program and a session of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.model.plain_commits import PlainCommits
from streaming.jvm.jars import delta_jars
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers import spark_job
from tests.support.brokers.spark_daemon import SPARK_BIN
from tests.support.brokers.standalone_cluster import StandaloneCluster, standalone_cluster
from tests.support.tables.equality import check_equality

pytestmark = [
    pytest.mark.long,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),
]

GROUPS = 200
_LIMIT_S = 900
_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.adaptive.enabled": "true",
    # Spark repeats the second of two tasks on the other host soon after the first one has ended.
    "spark.speculation": "true",
    "spark.speculation.interval": "10ms",
    "spark.speculation.efficiency.enabled": "false",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.minTaskRuntime": "10ms",
    # Executors come while the queries run, and go with their shuffle files while others work.
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "3s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "3s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "3s",
    "spark.default.parallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "8",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


def wheel_as_zip(repository: Path, folder: Path) -> Path:
    """The wheel under a name that Spark adds to Python's path."""
    build = ("-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder))
    subprocess.run([sys.executable, *build], cwd=repository, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return Path(shutil.copy(wheel, folder / "coordinator_state.zip"))


def submit(
    cluster: StandaloneCluster, program: Path, events: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the job to its end, with an event log in a folder."""
    events.mkdir()
    conf = _CONF | {"spark.eventLog.dir": events.as_uri()}
    return subprocess.run(
        [
            *(str(SPARK_BIN / "spark-submit"), "--master", cluster.master),
            *("--jars", ",".join(str(jar) for jar in delta_jars()), "--py-files", str(program)),
            *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
            *(str(spark_job.__file__), *arguments),
        ],
        # Not in the repository, whose packages Python would import.
        cwd=events,
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )


def events_of(folder: Path) -> list[dict[str, Any]]:
    """The events of Spark's only event log in a folder."""
    (log,) = folder.iterdir()
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_a_job_of_users_makes_the_same_tables(
    repository: Path, loaded_broker: tuple[EmbeddedBroker, PlainCommits], tmp_path: Path
) -> None:
    broker, commits = loaded_broker
    program = wheel_as_zip(repository, tmp_path / "wheel")
    tables, report = str(tmp_path / "tables"), tmp_path / "report.json"
    with standalone_cluster(tmp_path / "cluster") as cluster:
        done = submit(
            *(cluster, program, tmp_path / "events", broker.bootstrap_servers, tables),
            *(str(tmp_path / "checkpoint"), str(report)),
        )
    # spark-submit writes both outputs of Python to stdout.
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-10_000:]
    # `auto` looks at the master of the session: the setting is local.
    assert "engine driver: executors may not have the local folder" in done.stdout
    reported = json.loads(report.read_text())
    assert program.name in reported["driver"]
    assert program.name in reported["executor"]
    events = events_of(tmp_path / "events")
    names = {event["Event"].rpartition(".")[2] for event in events}
    assert names >= {
        "SparkListenerExecutorAdded",
        "SparkListenerExecutorRemoved",
        "SparkListenerSQLAdaptiveExecutionUpdate",
    }
    started = [event["Task Info"] for event in events if event["Event"] == "SparkListenerTaskStart"]
    assert any(task["Speculative"] for task in started)
    equality = check_equality(
        tables, commits.last, bootstrap_servers=broker.bootstrap_servers, groups_sampled=GROUPS
    )
    assert equality.is_equal, equality.summary
    assert equality.records_read == commits.count
