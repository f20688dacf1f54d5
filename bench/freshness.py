"""`python -m bench.freshness`: from the broker's acknowledgement of a commit to its row in Delta.

A query runs in a process of its own over tables of many keys, while commits arrive at a steady
rate. Each is fresh once `load_progress` is past its record: readers take the other tables at the
versions that it pins. Its processor time is measured then, and once more with nothing to read. Last
the query is started again, and the tables are held against what was committed.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np
from confluent_kafka import KafkaError, Message, Producer

from bench.findings import findings_option, write_findings
from bench.live import LOOK_EVERY_S, Watch, committed_offsets, running_query
from bench.processes import memory_bytes, processor_s, used_s
from coordinator_state.model.plain_commits import PlainCommits
from coordinator_state.model.records import offset_commit
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.replay.groups import NO_RECORD_OFFSET
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, Semantics
from coordinator_state.replay.partitioner import (
    DEFAULT_LOG_PARTITIONS,
    partition_for,
)
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.run.stderr import StderrHandler
from streaming.views.output import output_of

logger = logging.getLogger(__name__)

_WARM_UP_S = 20.0
_EXIT_DIFFERENT = 1


@click.command()
@click.option(
    "--keys",
    default=100_000,
    show_default=True,
    help="Keys that are committed before the measurement, ten for each group.",
)
@click.option("--rate", default=1_000, show_default=True, help="Commits per second.")
@click.option("--seconds", default=60, show_default=True, help="Length of the measurement.")
@click.option(
    "--idle-seconds",
    default=30,
    show_default=True,
    help="Length of the measurement after it, without commits.",
)
@click.option("--trigger", default="1 second", show_default=True, help="The trigger of run.")
@findings_option
@click.pass_context
def bench(
    ctx: click.Context,
    *,
    keys: int,
    rate: int,
    seconds: int,
    idle_seconds: int,
    trigger: str,
    findings: Path | None,
) -> None:
    """Measure how long after its acknowledgement a commit can be read from the tables.

    Starts a broker and a run of its own, and takes about three minutes.
    """
    logging.getLogger().handlers[:] = [StderrHandler()]
    logger.setLevel(logging.INFO)
    with tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as name:
        folder = Path(name)
        with EmbeddedBroker(folder=folder / "broker") as broker:
            broker.create_offsets_topic()
            from_ms = time.time_ns() // 1_000_000 - keys
            commits = PlainCommits(count=keys, key_count=keys, from_ms=from_ms)
            broker.load_logs(commits.logs())
            broker.wait_until_loaded()
            traffic = Traffic(broker.bootstrap_servers, commits, rate)
            watch = Watch(str(folder / "tables"))
            with running_query(broker.bootstrap_servers, folder, "--trigger", trigger) as query:
                watch.look_until(query, commits=keys)
                logger.info("the tables are loaded; traffic begins")
                traffic.go_on(_WARM_UP_S)
                traffic.acknowledged.clear()
                watch.seen.clear()
                before = len(query.micro_batches_ms())
                times_s = processor_s(query.pid)
                traffic.go_on(seconds, watch.look)
                busy_s = used_s(times_s, processor_s(query.pid))
                watch.look_until(query, traffic.ends())
                fresh_s = watch.ages_s(traffic.acknowledged)
                memory_mb = memory_bytes(query.pid) / 10**6
                micro_batches_ms = query.micro_batches_ms()[before:]
                logger.info("nothing is committed any more")
                time.sleep(_WARM_UP_S)
                times_s = processor_s(query.pid)
                time.sleep(idle_seconds)
                idle_s = used_s(times_s, processor_s(query.pid))
            traffic.go_on(1)
            began = time.monotonic()
            with running_query(broker.bootstrap_servers, folder) as query:
                watch.look_until(query, traffic.ends())
                restart_s = time.monotonic() - began
            is_equal = committed_offsets(watch.tables) == traffic.committed
    quantiles = np.quantile(fresh_s, (0.5, 0.9, 0.99, 1)).tolist()
    micro_batch_ms = float(np.median(micro_batches_ms))
    write_findings(
        findings,
        p50_s=quantiles[0],
        p99_s=quantiles[2],
        micro_batch_ms=micro_batch_ms,
        idle_percent=100 * idle_s / idle_seconds,
        memory_mb=memory_mb,
        restart_s=restart_s,
    )
    output_of("text").rows(
        [
            *(
                {"measured": f"acknowledged to readable, {name}", "found": f"{found_s:.2f} s"}
                for name, found_s in zip(("p50", "p90", "p99", "max"), quantiles, strict=True)
            ),
            {"measured": "commits", "found": str(len(fresh_s))},
            {"measured": "micro-batches", "found": str(len(micro_batches_ms))},
            {"measured": "a micro-batch, p50", "found": f"{micro_batch_ms:.0f} ms"},
            {"measured": "cores used by the query", "found": f"{busy_s / seconds:.2f}"},
            {"measured": "the same, nothing to read", "found": f"{idle_s / idle_seconds:.3f}"},
            {"measured": "memory of all processes", "found": f"{memory_mb:,.0f} MB"},
            {"measured": "restart to its first micro-batch", "found": f"{restart_s:.1f} s"},
            {"measured": "tables equal what was committed", "found": "yes" if is_equal else "no"},
        ],
        ["measured", "found"],
    )
    ctx.exit(0 if is_equal else _EXIT_DIFFERENT)


@dataclass(slots=True)
class Traffic:
    """Commits at a steady rate, of each group in turn.

    `acknowledged` is (log partition, record offset, when) of each, `committed` what stands.
    """

    bootstrap_servers: str
    commits: PlainCommits
    rate: int
    acknowledged: list[tuple[int, int, float]] = field(default_factory=list)
    committed: dict[OffsetKey, int] = field(init=False)
    _producer: Producer = field(init=False)
    _number: int = 0

    def __post_init__(self) -> None:
        self.committed = {key: last.offset for key, last in self.commits.last.items()}
        self._producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                # The one client that a broker lets produce into its internal topics.
                "client.id": "__admin_client",
                "linger.ms": 0,
                # What is sent again must not overtake.
                "max.in.flight.requests.per.connection": 1,
                # The broker goes before the producer does.
                "log_level": 2,
                "on_delivery": self._remember,
            }
        )

    def go_on(self, seconds: float, look: Callable[[], None] = lambda: None) -> None:
        """Commit for a while; `look` is called in between."""
        began, sent = time.monotonic(), 0
        while (now := time.monotonic()) < began + seconds:
            while sent < (now - began) * self.rate:
                self._commit()
                sent += 1
            self._producer.poll(0)
            look()
            time.sleep(LOOK_EVERY_S)
        self._producer.flush()

    def ends(self) -> dict[int, int]:
        """The last record of each log partition."""
        return {p: at for p, at, _ in sorted(self.acknowledged)}

    def _commit(self) -> None:
        self._number += 1
        # 7919 is prime: every key comes before one comes again.
        key = self.commits.keys[self._number * 7919 % self.commits.key_count]
        self.committed[key] += 1
        record_key, value = offset_commit(
            key,
            CommittedOffset(
                committed_offset=self.committed[key],
                commit_timestamp_ms=time.time_ns() // 1_000_000,
                # The log gives it one.
                record_offset=NO_RECORD_OFFSET,
            ),
            Semantics.COORDINATOR,
        )
        log_partition = partition_for(key.group_id, DEFAULT_LOG_PARTITIONS)
        self._producer.produce(OFFSETS_TOPIC, value, record_key, log_partition)

    def _remember(self, error: KafkaError | None, message: Message) -> None:
        log_partition, record_offset = message.partition(), message.offset()
        if error is not None or log_partition is None or record_offset is None:
            raise RuntimeError(str(error))
        self.acknowledged.append((log_partition, record_offset, time.monotonic()))


if __name__ == "__main__":
    bench(prog_name="python -m bench.freshness")
