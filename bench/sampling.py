"""`python -m bench.sampling`: offset samples of many topic partitions, and freshness beside them.

Several brokers have the partitions, because a broker has an open file for each of them. A query
samples all of them while commits arrive at a steady rate, and another one samples nothing.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import requests
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from prometheus_client.parser import text_string_to_metric_families

from bench.freshness import Traffic
from bench.live import Watch, committed_offsets, running_query
from bench.processes import processor_s, used_s
from coordinator_state.model.plain_commits import PlainCommits
from streaming.kafka.log_offsets import LogOffsetsClient
from streaming.local.broker.configuration import free_port
from streaming.run.stderr import StderrHandler
from streaming.views.output import output_of
from tests.support.brokers.embedded_cluster import EmbeddedCluster

logger = logging.getLogger(__name__)

_PARTITIONS_PER_TOPIC = 25
_PARTITIONS_PER_BROKER = 12_500
_TOPICS_AT_ONCE = 50
_BROKER_PROPERTIES = {
    "default.replication.factor": 1,
    "offsets.topic.replication.factor": 1,
    # Two maps of memory for each partition, which are as large as their files may get.
    "log.index.size.max.bytes": 4_096,
}
_TIMEOUT_S = 600.0
_WARM_UP_S = 20.0
_EXIT_DIFFERENT = 1
_SAMPLING = "coordinator_state_run_sampling_"


@click.command()
@click.option("--partitions", default=50_000, show_default=True, help="25 of each topic.")
@click.option("--keys", default=10_000, show_default=True, help="Ten for each group.")
@click.option("--rate", default=1_000, show_default=True, help="Commits per second.")
@click.option("--seconds", default=60, show_default=True, help="Length of each measurement.")
@click.pass_context
def bench(ctx: click.Context, *, partitions: int, keys: int, rate: int, seconds: int) -> None:
    """Measure a round of offset samples, and how long commits wait beside such rounds.

    Starts brokers and two runs of its own, and takes about six minutes. More than 20,000 partitions
    need a `vm.max_map_count` above 65,530.
    """
    logging.getLogger().handlers[:] = [StderrHandler()]
    logger.setLevel(logging.INFO)
    with tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as name:
        folder = Path(name)
        brokers = max(1, -(-partitions // _PARTITIONS_PER_BROKER))
        with EmbeddedCluster(brokers, folder=folder, properties=_BROKER_PROPERTIES) as cluster:
            cluster.create_offsets_topic()
            servers = cluster.bootstrap_servers
            from_ms = time.time_ns() // 1_000_000
            traffic = Traffic(servers, PlainCommits(keys, keys, from_ms), rate)
            without = _measured(traffic, folder / "without", seconds, "--lag-interval", "off")
            _create_topics(servers, partitions)
            beside = _measured(traffic, folder / "beside", seconds, "--lag-topics", "all")
    rows = [
        {"samples of": f"{sampled:,} partitions", **measurement.row()}
        for sampled, measurement in ((0, without), (partitions, beside))
    ]
    output_of("text").rows(rows, list(rows[0]))
    ctx.exit(0 if without.is_equal and beside.is_equal else _EXIT_DIFFERENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measurement:
    fresh_s: list[float]
    cores: float
    rounds: float
    round_s: float
    is_equal: bool

    def row(self) -> dict[str, str]:
        p50_s, p99_s = np.quantile(self.fresh_s, (0.5, 0.99)).tolist()
        return {
            "rounds": f"{self.rounds:.0f}",
            "last round": f"{self.round_s:.2f} s",
            "cores of run": f"{self.cores:.2f}",
            "fresh p50": f"{p50_s:.2f} s",
            "fresh p99": f"{p99_s:.2f} s",
            "tables equal": "yes" if self.is_equal else "no",
        }


def _measured(traffic: Traffic, folder: Path, seconds: float, *options: str) -> _Measurement:
    folder.mkdir()
    port = free_port()
    watch = Watch(str(folder / "tables"))
    with running_query(
        traffic.bootstrap_servers, folder, "--http-port", str(port), *options
    ) as query:
        watch.look_until(query)
        traffic.go_on(_WARM_UP_S)
        traffic.acknowledged.clear()
        watch.seen.clear()
        watch.look()
        before, times_s = _sampling(port), processor_s(query.pid)
        traffic.go_on(seconds, watch.look)
        busy_s, after = used_s(times_s, processor_s(query.pid)), _sampling(port)
        watch.look_until(query, traffic.ends())
        return _Measurement(
            fresh_s=watch.ages_s(traffic.acknowledged),
            cores=busy_s / seconds,
            rounds=after["total"] - before["total"],
            round_s=after["seconds"],
            is_equal=committed_offsets(watch.tables) == traffic.committed,
        )


def _sampling(port: int) -> Mapping[str, float]:
    """The metrics of samples by the end of their names; outcomes are added up."""
    text = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
    sums: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith(_SAMPLING):
                sums[sample.name.removeprefix(_SAMPLING)] += sample.value
    return sums


def _create_topics(servers: str, partitions: int) -> None:
    """Create the topics, and wait until each partition has a leader that answers."""
    logger.info("creating %(partitions)s partitions", {"partitions": partitions})
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [
        NewTopic(f"sampled-{number}", _PARTITIONS_PER_TOPIC)
        for number in range(partitions // _PARTITIONS_PER_TOPIC)
    ]
    for start in range(0, len(topics), _TOPICS_AT_ONCE):
        for created in admin.create_topics(topics[start : start + _TOPICS_AT_ONCE]).values():
            created.result(_TIMEOUT_S)
    deadline = time.monotonic() + _TIMEOUT_S
    client = LogOffsetsClient(servers)
    try:
        while time.monotonic() < deadline:
            sampled = client.sample(client.partitions())
            answered = sum(sample.log_end_offset is not None for sample in sampled)
            logger.info("%(answered)s partitions answer", {"answered": answered})
            if answered >= len(topics) * _PARTITIONS_PER_TOPIC:
                return
    finally:
        client.close()
    raise TimeoutError("the brokers do not have all partitions")


if __name__ == "__main__":
    bench(prog_name="python -m bench.sampling")
