"""When a run is well and when it is ready, and what it counts."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql.streaming.listener import StreamingQueryProgress

from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.run.monitoring.endpoints import RunCollector, create_app, monitored
from streaming.run.monitoring.run_monitor import HighWatermarks, RunMonitor
from streaming.run.settings import RunSettings
from streaming.tables.topic_progress import Progress
from tests.support.browser.html import client_of
from tests.support.eventually import Eventually

PROMTOOL = shutil.which("promtool")
KEPT_FOR, TIMEOUT = timedelta(seconds=10), timedelta(minutes=1)


@dataclass
class Cluster:
    """A clock, and leaders that tell high watermarks."""

    now: float = 1_000.0
    ends: Mapping[int, int] | Exception = field(default_factory=dict)

    def ask(self) -> Mapping[int, int]:
        if isinstance(self.ends, Exception):
            raise self.ends
        return self.ends

    def monitor(self) -> RunMonitor:
        ends = HighWatermarks(self.ask, KEPT_FOR, clock=lambda: self.now)
        return RunMonitor(ends, TIMEOUT, clock=lambda: self.now)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def get(monitor: RunMonitor, path: str) -> tuple[int, dict[str, Any]]:
    response = client_of(create_app(monitor)).get(path)
    return response.status_code, response.json()


def loaded(**next_offsets: int) -> dict[int, Progress]:
    return {int(name[1:]): Progress(next_offset=offset) for name, offset in next_offsets.items()}


def test_ready_is_every_log_partition_at_its_end(cluster: Cluster) -> None:
    monitor = cluster.monitor()
    cluster.ends = {0: 5, 1: 9, 2: 0}
    monitor.high_watermarks.sample()
    monitor.loaded(loaded(p0=5, p1=8))

    status, said = get(monitor, "/ready")
    assert (status, said["ready"]) == (503, False)
    assert said["behind"] == {"1": {"next_offset": 8, "high_watermark": 9}}

    monitor.loaded(loaded(p0=5, p1=9))
    assert get(monitor, "/ready") == (200, {"ready": True, "log_partitions": 3, "behind": {}})


def test_what_came_a_moment_ago_may_still_be_on_its_way(cluster: Cluster) -> None:
    monitor = cluster.monitor()
    monitor.loaded(loaded(p0=5))
    for end in (5, 6, 7):
        cluster.ends = {0: end}
        monitor.high_watermarks.sample()
        cluster.now += KEPT_FOR.total_seconds() / 2
    # Of ten seconds ago the tables have all, of five seconds ago not yet.
    cluster.now -= KEPT_FOR.total_seconds() / 2
    assert get(monitor, "/ready")[0] == 200
    assert monitor.offsets_behind() == {0: 2}
    cluster.now += 1
    assert get(monitor, "/ready")[1]["behind"] == {"0": {"next_offset": 5, "high_watermark": 6}}


@pytest.mark.parametrize("error", [TimeoutError("no leader"), ConfigurationError("no leader")])
def test_nobody_knows_without_the_cluster(cluster: Cluster, error: Exception) -> None:
    monitor = cluster.monitor()
    monitor.loaded(loaded(p0=5))
    assert "not requested yet" in get(monitor, "/ready")[1]["reason"]
    cluster.ends = {0: 5}
    monitor.high_watermarks.sample()
    cluster.ends = error
    cluster.now += KEPT_FOR.total_seconds()
    monitor.high_watermarks.sample()
    # What was seen is known for as long as it is young.
    assert get(monitor, "/ready")[0] == 200
    cluster.now += 1
    status, said = get(monitor, "/ready")
    assert (status, said["reason"]) == (503, "high watermarks unknown: no leader")
    assert monitor.offsets_behind() == {}


def test_health_is_that_triggers_come_to_an_end(cluster: Cluster) -> None:
    monitor = cluster.monitor()
    assert get(monitor, "/health")[1]["query"] == "starting"
    cluster.now += TIMEOUT.total_seconds() + 1
    status, said = get(monitor, "/health")
    assert (status, said["healthy"]) == (503, False)
    assert "no micro-batch and no idle trigger" in said["reason"]
    assert said["seconds_since_last_trigger"] == TIMEOUT.total_seconds() + 1
    monitor.triggered()
    assert get(monitor, "/health")[0] == 200


def test_a_query_that_starts_again_is_alive_until_it_takes_too_long(cluster: Cluster) -> None:
    monitor = cluster.monitor()
    with pytest.raises(TablesUnavailable), monitor.query():
        raise TablesUnavailable("no space\nleft")
    status, said = get(monitor, "/health")
    assert (status, said["query"]) == (200, "restarting")
    assert said["last_error"] == "TablesUnavailable: no space"
    cluster.now += TIMEOUT.total_seconds() + 1
    assert get(monitor, "/health")[0] == 503
    with monitor.query():
        monitor.loaded(loaded(p0=6))
        assert get(monitor, "/health")[1]["query"] == "running"


PROGRESS = {
    **{"id": "5b2d9a4e-0000-0000-0000-000000000000", "name": "q", "batchId": 3, "batchDuration": 9},
    **{"runId": "5b2d9a4e-0000-0000-0000-000000000001", "timestamp": "2026-11-22T00:00:00.000Z"},
    **{"durationMs": {"addBatch": 300, "latestOffset": 20, "triggerExecution": 400}},
    **{"eventTime": {}, "stateOperators": [], "sources": [], "numInputRows": 4},
    **{"inputRowsPerSecond": 2.0, "processedRowsPerSecond": 10.0, "observedMetrics": {}},
    "sink": {"description": "s", "numOutputRows": -1, "metrics": {}},
}


def counted(cluster: Cluster) -> str:
    monitor = cluster.monitor()
    monitor.metrics.registry.register(RunCollector(monitor, "cluster"))
    with pytest.raises(TablesUnavailable), monitor.query():
        raise TablesUnavailable("full")
    row = Progress(next_offset=4, records_applied=3, records_quarantined=1, records_unaccounted=2)
    with monitor.query():
        monitor.loaded({7: row})
        monitor.triggered(StreamingQueryProgress.fromJson(PROGRESS))
    monitor.metrics.maintained(True)
    monitor.metrics.seen_logs(["present", "gone", "present"], 1)
    cluster.ends = {7: 6}
    monitor.high_watermarks.sample()
    response = client_of(create_app(monitor)).get("/metrics")
    assert response.status_code == 200
    return response.text


def test_what_is_counted(cluster: Cluster) -> None:
    values = {
        (sample.name.removeprefix("coordinator_state_"), *sorted(sample.labels.values())): (
            sample.value
        )
        for family in text_string_to_metric_families(counted(cluster))
        for sample in family.samples
    }
    expected = {
        ("run_micro_batch_seconds_sum", "addBatch"): 0.3,
        ("run_micro_batch_seconds_count", "triggerExecution"): 1,
        ("run_input_rows_total",): 4,
        ("run_processed_rows_per_second",): 10,
        ("run_restarts_total",): 1,
        ("run_upkeep_total", "done"): 1,
        ("run_upkeep_total", "failed"): 0,
        ("run_sampling_total", "done"): 0,
        ("run_samples_dropped_total",): 0,
        ("run_sampled_partitions", "present"): 2,
        ("run_unreadable_log_ends",): 1,
        ("run_log_partition_behind_offsets", "7", "cluster"): 2,
        ("log_partition_next_offset", "7", "cluster"): 4,
        ("records_total", "applied", "cluster"): 3,
        ("records_unaccounted_total", "cluster"): 2,
        ("run_healthy", "cluster"): 1,
        ("run_ready", "cluster"): 0,
    }
    assert expected.items() <= values.items()
    assert values["run_last_error_timestamp_seconds", "TablesUnavailable"] > 1e9


@pytest.mark.skipif(
    PROMTOOL is None,
    reason="promtool is not installed (Debian's package prometheus, which .ci/run installs)",
)
def test_promtool_takes_the_metrics(cluster: Cluster) -> None:
    checked = subprocess.run(
        [str(PROMTOOL), "check", "metrics"],
        input=counted(cluster),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_an_outage_is_logged_by_the_query_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, eventually: Eventually
) -> None:
    """`/ready` asks the brokers every second, and would have a line of its own for each failure."""
    # Nobody listens on that port.
    settings = RunSettings(bootstrap_servers="127.0.0.1:1", tables=str(tmp_path), http_port=0)
    with monitored(settings, "cluster") as monitor:
        monitor.loaded(loaded(p0=1))
        eventually(lambda: "cannot describe" in str(monitor.readiness()))
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []
