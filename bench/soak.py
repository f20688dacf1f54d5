"""`python -m bench.soak`: hours of commits and rebalances, and whether memory and files stay flat.

Groups commit through their coordinator at a steady rate, a hundred offsets a request, and the
demo's groups rebalance, use transactions and delete offsets beside them. A query runs in a process
of its own; now and then is noted what its processes take and of how many files the tables are made.
Last the tables are held against the broker's answers.
"""

from __future__ import annotations

import csv
import logging
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
from kafka.admin import NewTopic
from kafka.protocol.consumer import OffsetCommitRequest
from kafka.protocol.metadata import MetadataRequest

from bench.findings import findings_option, write_findings
from bench.live import RunningQuery, Watch, running_query
from bench.processes import memory_by_program
from streaming.kafka.connections import BrokerConnections
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.local.demo import traffic as demo
from streaming.local.demo.groups import BROKER_PROPERTIES, Clients, create_topics
from streaming.run.stderr import StderrHandler
from streaming.tables.reader import TableReader
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verify import verify
from streaming.views.output import output_of

logger = logging.getLogger(__name__)

_TOPIC: Final = "soak"
_PARTITIONS: Final = 100
_GROUPS: Final = 100
_PATIENCE_S: Final = 120.0
_PAUSE_S: Final = 0.005
_EXIT_DIFFERENT: Final = 1
# The JVM grows its heap for a while, and caches of the driver fill with the groups there are.
_WARM_UP_SHARE: Final = 0.25
_CHART_POINTS: Final = 15


@click.command()
@click.option("--rate", default=5_000, show_default=True, help="Commits per second.")
@click.option("--minutes", default=120, show_default=True, help="For so long.")
@click.option("--every-s", default=10.0, show_default=True, help="Time between two samples.")
@click.option(
    "--samples",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write each sample into this file, as CSV, while it goes on.",
)
@findings_option
@click.pass_context
def soak(
    ctx: click.Context,
    *,
    rate: int,
    minutes: int,
    every_s: float,
    samples: Path | None,
    findings: Path | None,
) -> None:
    """Commit for hours and measure memory and files."""
    logging.getLogger().handlers[:] = [StderrHandler()]
    logger.setLevel(logging.INFO)
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="coordinator-state-bench-"))
        )
        broker = stack.enter_context(
            EmbeddedBroker(folder=folder / "broker", properties=BROKER_PROPERTIES)
        )
        servers = broker.bootstrap_servers
        broker.create_offsets_topic()
        clients = Clients(servers)
        create_topics(clients)
        with clients.admin() as admin:
            admin.create_topics([NewTopic(_TOPIC, _PARTITIONS, 1)])
        commits = Commits(servers, rate, minutes * 60)
        watch = Watch(str(folder / "tables"))
        with closing(demo.Traffic(servers)) as traffic, running_query(servers, folder) as query:
            watch.look_until(query)
            traffic.start()
            with ThreadPoolExecutor(1) as thread:
                committing = thread.submit(commits.commit)
                taken = list(_samples(query, folder / "tables", committing, every_s, samples))
                took_s = committing.result()
            traffic.stop(_PATIENCE_S)
            with BrokerAnswers(servers) as answers:
                verification = verify(
                    answers,
                    lambda: TableAnswers(TableReader(watch.tables)),
                    timeout_s=_PATIENCE_S,
                )
            micro_batches_ms = query.micro_batches_ms()
    flat = [sample for sample in taken if sample.seconds > _WARM_UP_SHARE * taken[-1].seconds]
    growth = {name: _per_hour(flat, name) for name in _MEASURED}
    write_findings(
        findings,
        commits_per_s=commits.total / took_s,
        minutes=took_s / 60,
        **{f"{name}_per_hour": value for name, value in growth.items()},
    )
    output_of("text").rows(
        [
            {"measured": "commits a second", "found": f"{commits.total / took_s:,.0f}"},
            {"measured": "for", "found": f"{took_s / 60:.0f} min"},
            {"measured": "micro-batches", "found": str(len(micro_batches_ms))},
            {"measured": "a micro-batch, p50", "found": f"{np.median(micro_batches_ms):.0f} ms"},
            *(
                {
                    "measured": name.replace("_", " "),
                    "found": f"{getattr(flat[0], name):,} to {getattr(flat[-1], name):,}, "
                    f"most {max(getattr(sample, name) for sample in flat):,}, "
                    f"{growth[name]:+,.1f} an hour",
                }
                for name in _MEASURED
            ),
            {"measured": "differences from the broker", "found": len(verification.differences)},
        ],
        ["measured", "found"],
    )
    click.echo(_chart(taken))
    ctx.exit(_EXIT_DIFFERENT if verification.differences else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the query took, in MB of memory that is its own, and how many files its tables have."""

    seconds: int
    driver_mb: int
    jvm_mb: int
    workers_mb: int
    state_files: int
    history_files: int
    load_progress_version: int


_MEASURED: Final = ("driver_mb", "jvm_mb", "workers_mb", "state_files", "history_files")
_STATE_TABLES: Final = ("group_offsets", "pending_offsets", "groups", "group_members")
_HISTORY_TABLES: Final = ("offset_commits", "group_events", "log_offsets")


def _samples(
    query: RunningQuery, tables: Path, committing: Any, every_s: float, file: Path | None
) -> Iterator[Sample]:
    began = time.monotonic()
    with ExitStack() as stack:
        written = None
        if file is not None:
            opened = stack.enter_context(file.open("w", newline="", buffering=1))
            written = csv.DictWriter(opened, Sample.__slots__)
            written.writeheader()
        while not committing.done():
            query.require_alive()
            sample = _sample(query, tables, round(time.monotonic() - began))
            if written is not None:
                written.writerow(asdict(sample))
            yield sample
            time.sleep(every_s)


def _sample(query: RunningQuery, tables: Path, seconds: int) -> Sample:
    memory = memory_by_program(query.pid)
    driver, jvm = memory.pop(str(query.pid), 0), memory.pop("java", 0)
    return Sample(
        seconds=seconds,
        driver_mb=driver >> 20,
        jvm_mb=jvm >> 20,
        workers_mb=sum(memory.values()) >> 20,
        state_files=_files(tables, _STATE_TABLES),
        history_files=_files(tables, _HISTORY_TABLES),
        load_progress_version=TableReader(str(tables)).version,
    )


def _files(tables: Path, names: Sequence[str]) -> int:
    return sum(1 for name in names for _ in (tables / name).rglob("*.parquet"))


def _per_hour(samples: Sequence[Sample], name: str) -> float:
    """The slope of the line through what was measured."""
    seconds = [sample.seconds for sample in samples]
    measured = [getattr(sample, name) for sample in samples]
    return float(np.polyfit(seconds, measured, 1)[0] * 3600) if len(samples) > 1 else 0.0


def _chart(samples: Sequence[Sample]) -> str:
    """Memory over time, as Mermaid draws it: the driver, the JVM, the workers."""
    step = -(-len(samples) // _CHART_POINTS)
    shown = samples[::step]
    lines = [[getattr(sample, name) for sample in shown] for name in _MEASURED[:3]]
    return "\n".join(
        [
            "```mermaid\nxychart-beta",
            f'    x-axis "minutes" 0 --> {samples[-1].seconds // 60}',
            f'    y-axis "MB" 0 --> {max(max(line) for line in lines) + 100}',
            *(f"    line {line}" for line in lines),
            "```",
        ]
    )


@dataclass(slots=True)
class Commits:
    """Commits of many groups in turn through their coordinator, all of a topic in a request."""

    bootstrap_servers: str
    rate: int
    seconds: float
    total: int = 0
    _offsets: dict[str, int] = field(default_factory=dict)

    def commit(self) -> float:
        """Commit until the time is over; returns how long that was."""
        connections = BrokerConnections(self.bootstrap_servers, {"client_id": "soak"})
        try:
            return connections.run(lambda: self._commit(connections))
        finally:
            connections.close()

    async def _commit(self, connections: BrokerConnections) -> float:
        # The only broker is every group's coordinator.
        metadata = await connections.ask_any(lambda: MetadataRequest(topics=[], min_version=1))
        node_id = metadata.brokers[0].node_id
        began = time.monotonic()
        while (now := time.monotonic() - began) < self.seconds:
            if self.total >= now * self.rate:
                time.sleep(_PAUSE_S)
                continue
            group_id = f"soak-{self.total // _PARTITIONS % _GROUPS}"
            self._offsets[group_id] = self._offsets.get(group_id, 0) + 1
            answer = await connections.send(
                node_id, _commit_request(group_id, self._offsets[group_id])
            )
            errors = {p.error_code for topic in answer.topics for p in topic.partitions}
            if errors != {0}:
                raise RuntimeError(f"the broker answered with error codes {errors}")
            self.total += _PARTITIONS
        return time.monotonic() - began


def _commit_request(group_id: str, committed_offset: int) -> OffsetCommitRequest:
    Topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partitions = [
        Topic.OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=committed_offset,
            committed_leader_epoch=-1,
            committed_metadata="",
        )
        for partition in range(_PARTITIONS)
    ]
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[Topic(name=_TOPIC, partitions=partitions)],
        min_version=7,
        max_version=9,
    )


if __name__ == "__main__":
    soak(prog_name="python -m bench.soak")
