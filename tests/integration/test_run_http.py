"""What `run` says of itself over HTTP and in its log, on a real broker."""

from __future__ import annotations

import json
import signal
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from coordinator_state.replay.partitioner import partition_for
from streaming.errors import ConfigurationError
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.run.query import run_query
from tests.support.brokers.commits import commit, committed, create_topic
from tests.support.brokers.live_run import START_S, LiveRun, live_run
from tests.support.brokers.running_query import run_settings
from tests.support.eventually import Eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

GROUP = TOPIC = "watched"
PHASES = {"addBatch", "latestOffset", "queryPlanning", "walCommit", "triggerExecution"}
OF_JAVA = "NOTE: Picked up JDK_JAVA_OPTIONS"


@dataclass(frozen=True)
class Run:
    """A `run` with its log; port 0, so the log tells the address."""

    live: LiveRun

    def logged(self) -> list[dict[str, Any]]:
        # The last line may be half written.
        lines = self.live.log.split("\n")[:-1]
        return [json.loads(line) for line in lines if not line.startswith(OF_JAVA)]

    def port(self) -> int | None:
        assert self.live.is_alive, self.live.log
        for line in self.logged():
            if line["message"].startswith("metrics, health and readiness: "):
                return int(line["message"].rpartition(":")[2].partition("/")[0])
        return None

    def get(self, path: str) -> tuple[int, str]:
        with closing(HTTPConnection("127.0.0.1", self.port() or 0, timeout=60)) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()

    def said(self, path: str) -> tuple[int, dict[str, Any]]:
        status, text = self.get(path)
        return status, json.loads(text)

    def samples(self) -> dict[tuple[str, ...], float]:
        """Metrics by name and by the values of their labels, but for the cluster's."""
        status, text = self.get("/metrics")
        assert status == 200
        return {
            (
                sample.name,
                *(v for k, v in sorted(sample.labels.items()) if k != "cluster_name"),
            ): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


def test_it_tells_how_it_is(broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually) -> None:
    create_topic(broker, TOPIC)
    commit(broker, GROUP, TOPIC, 4)
    tables = tmp_path / "tables"
    options = (
        *("--bootstrap-servers", broker.bootstrap_servers, "--upkeep-interval", "1 second"),
        *("--http-port", "0", "--log-format", "json"),
    )
    with live_run(tmp_path, *options) as live:
        run = Run(live)
        eventually(run.port, START_S)
        assert run.said("/health")[0] == 200
        eventually(lambda: run.said("/ready")[0] == 200, 120)
        assert run.said("/ready")[1]["log_partitions"] == 50
        eventually(lambda: run.said("/health")[1]["query"] == "running", 120)
        phase = "coordinator_state_run_micro_batch_seconds_count"
        for sample in (
            ("coordinator_state_run_upkeep_total", "done"),
            ("coordinator_state_run_sampled_partitions", "present"),
            (phase, "addBatch"),
        ):
            eventually(partial(lambda sample: run.samples().get(sample), sample), 120)
        samples = run.samples()
        assert {name[1] for name in samples if name[0] == phase} >= PHASES
        assert samples[("coordinator_state_run_input_rows_total",)] > 0
        for name in ("records_unaccounted", "run_restarts", "run_samples_dropped"):
            assert samples[(f"coordinator_state_{name}_total",)] == 0

        other = run_settings(broker, tmp_path / "other", http_port=run.port())
        with pytest.raises(ConfigurationError, match="choose another --http-port"):
            run_query(other)
        _assert_it_says_that_tables_cannot_be_written(run, tables, broker, eventually)
        live.stop(signal.SIGTERM)
    _assert_logged(run.logged())


def _assert_it_says_that_tables_cannot_be_written(
    run: Run, tables: Path, broker: EmbeddedBroker, eventually: Eventually
) -> None:
    log, away = tables / "group_offsets" / "_delta_log", tables / "away"
    log.rename(away)
    commit(broker, GROUP, TOPIC, 5)
    eventually(lambda: run.said("/ready")[0] == 503, 120)
    status, said = run.said("/ready")
    assert str(partition_for(GROUP)) in said["behind"]
    eventually(lambda: run.samples()[("coordinator_state_run_restarts_total",)] > 0, 120)
    last_error = ("coordinator_state_run_last_error_timestamp_seconds", "TablesUnavailable")
    assert run.samples()[last_error] > 0
    status, said = run.said("/health")
    assert status == 200
    assert said["last_error"].startswith("TablesUnavailable: cannot ")
    away.rename(log)
    eventually(lambda: run.said("/ready")[0] == 200, 120)
    assert committed(tables, GROUP) == [5]


def _assert_logged(lines: list[dict[str, Any]]) -> None:
    """Everything was JSON, that of Spark too, and what happened are fields."""
    for line in lines:
        assert list(line)[:4] == ["time", "level", "logger", "message"]
        assert line["time"].endswith("Z")
    micro_batches = [line for line in lines if line["message"].startswith("micro-batch ")]
    # A query that starts again counts from 0.
    assert len(micro_batches) >= 2
    assert micro_batches[0]["batch_id"] == 0
    fields = {"records_read", "rows_merged", "quarantined", "duration_ms"}
    assert all(fields <= line.keys() for line in micro_batches)
    restarted = [line for line in lines if line["logger"] == "streaming.run.supervision"]
    assert restarted[0]["restarts"] == 1
    # Also where a query that starts again cannot read what it cannot write.
    assert {line["error_class"] for line in restarted} == {"TablesUnavailable"}
    # What fails in Spark is told by this program.
    assert not [line for line in lines if line["logger"].startswith("org.apache.spark.")]
