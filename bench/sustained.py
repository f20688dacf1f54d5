"""`python -m bench.sustained`: commits at a high, steady rate, and whether the query keeps up.

A query runs in a process of its own, and whole record batches are produced beside it: making them
would take more than the broker and the query do, so they are made before. At each version of
`load_progress` is known which commits had been acknowledged when an earlier micro-batch ended; the
query is so many micro-batches behind as it takes for all of them to be there. Last, the tables are
held against what was committed.
"""

from __future__ import annotations

import logging
import mmap
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import ProduceRequest

from bench.findings import findings_option, write_findings
from bench.live import Watch, committed_offsets, running_query
from bench.processes import processor_s, used_s
from coordinator_state.model.plain_commits import PlainCommits
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.wire.primitives import read_int32
from streaming.kafka.connections import BrokerConnections
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.run.stderr import StderrHandler
from streaming.views.output import output_of

logger = logging.getLogger(__name__)

_BATCH_RECORDS: Final = 500
_LOOK_EVERY_S: Final = 0.1
_PAUSE_S: Final = 0.01
_EXIT_DIFFERENT: Final = 1
_TARGET: Final = "250,000 commits/s, at most 2 behind"
# Before it a request may name topics; behind it they are ids.
_LAST_VERSION_WITH_NAMES: Final = 12
# As a coordinator appends: acknowledged by every replica.
_ALL_REPLICAS: Final = -1
_TIMEOUT_MS: Final = 30_000
# A producer counts from 0; the broker puts its own in the place of this.
_NO_BASE_OFFSET: Final = bytes(8)
# A batch is as long as it says, and these of its bytes before that.
_SIZE_POSITION: Final = 8
_SIZE_END: Final = 12
_COUNT_POSITION: Final = 57


@click.command()
@click.option("--rate", default=250_000, show_default=True, help="Commits per second.")
@click.option("--keys", default=100_000, show_default=True, help="Ten to a group.")
@click.option("--seconds", default=300, show_default=True, help="For so long.")
@findings_option
@click.pass_context
def sustained(
    ctx: click.Context, *, rate: int, keys: int, seconds: int, findings: Path | None
) -> None:
    """Commit at a steady rate and measure how far the query is behind."""
    logging.getLogger().handlers[:] = [StderrHandler()]
    logger.setLevel(logging.INFO)
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="coordinator-state-bench-"))
        )
        count = max(rate * seconds, keys)
        commits = PlainCommits(
            count=count,
            key_count=keys,
            from_ms=time.time_ns() // 1_000_000 - count,
            batch_records=_BATCH_RECORDS,
        )
        expected = {key: last.offset for key, last in commits.last.items()}
        logger.info("writing %s commits", commits.count)
        logs = [_batches(stack, folder, *log) for log in commits.logs()]
        del commits
        broker = stack.enter_context(EmbeddedBroker(folder=folder / "broker"))
        broker.create_offsets_topic()
        traffic = Traffic(broker.bootstrap_servers, logs, seconds)
        watch = Watch(str(folder / "tables"))
        with running_query(broker.bootstrap_servers, folder) as query:
            watch.look_until(query)
            logger.info("traffic begins")
            times_s = processor_s(query.pid)
            took_s = _watched(traffic, watch)
            busy_s = used_s(times_s, processor_s(query.pid))
            watch.look_until(query, commits=traffic.total)
            behind = micro_batches_behind(traffic.acknowledged, watch.totals)
            micro_batches_ms = query.micro_batches_ms()
        is_equal = committed_offsets(watch.tables) == expected
    found_rate = traffic.total / took_s
    write_findings(findings, commits_per_s=found_rate, behind=max(behind))
    output_of("text").rows(
        [
            {"measured": "commits a second, acknowledged", "found": f"{found_rate:,.0f}"},
            {"measured": "for", "found": f"{took_s:.0f} s"},
            {"measured": "micro-batches", "found": str(len(micro_batches_ms))},
            {"measured": "micro-batches behind, most", "found": str(max(behind))},
            {"measured": "a micro-batch, p50", "found": f"{np.median(micro_batches_ms):.0f} ms"},
            {"measured": "the longest", "found": f"{max(micro_batches_ms)} ms"},
            {"measured": "cores used by the query", "found": f"{busy_s / took_s:.2f}"},
            {"measured": "target", "found": _TARGET},
            {"measured": "tables equal what was committed", "found": "yes" if is_equal else "no"},
        ],
        ["measured", "found"],
    )
    ctx.exit(0 if is_equal else _EXIT_DIFFERENT)


def _batches(stack: ExitStack, folder: Path, log_partition: int, log: bytes) -> Sequence[Any]:
    """The record batches of a log, which lies in a file."""
    file = stack.enter_context((folder / f"{log_partition}.log").open("w+b"))
    file.write(log)
    file.flush()
    view = memoryview(mmap.mmap(file.fileno(), 0)) if log else memoryview(b"")
    ends = [0]
    while ends[-1] < len(view):
        size, _ = read_int32(view, ends[-1] + _SIZE_POSITION)
        ends.append(ends[-1] + _SIZE_END + size)
    return [view[start:end] for start, end in pairwise(ends)]


def _watched(traffic: Traffic, watch: Watch) -> float:
    with ThreadPoolExecutor(1) as thread:
        produced = thread.submit(traffic.produce)
        while not produced.done():
            watch.look()
            time.sleep(_LOOK_EVERY_S)
        return produced.result()


@dataclass(slots=True)
class Traffic:
    """Batches of every log, each log's spread evenly over the time.

    `acknowledged` is when, and how many commits were by then.
    """

    bootstrap_servers: str
    logs: Sequence[Sequence[Any]]
    seconds: float
    total: int = 0
    acknowledged: list[tuple[float, int]] = field(default_factory=list)

    def produce(self) -> float:
        """Produce them all; returns how long it took."""
        # The one client that a broker lets produce into its internal topics.
        connections = BrokerConnections(self.bootstrap_servers, {"client_id": "__admin_client"})
        try:
            return connections.run(lambda: self._produce(connections))
        finally:
            connections.close()

    async def _produce(self, connections: BrokerConnections) -> float:
        metadata = await connections.ask_any(_metadata_request)
        (leader,) = {p.leader_id for topic in metadata.topics for p in topic.partitions}
        began = time.monotonic()
        sent = [0] * len(self.logs)
        while any(done < len(log) for done, log in zip(sent, self.logs, strict=True)):
            share = min((time.monotonic() - began) / self.seconds, 1)
            due = [p for p, log in enumerate(self.logs) if sent[p] < int(share * len(log))]
            if not due:
                time.sleep(_PAUSE_S)
                continue
            batches = {p: self.logs[p][sent[p]] for p in due}
            answer = await connections.send(leader, _produce_request(batches))
            errors = {p.error_code for topic in answer.responses for p in topic.partition_responses}
            if errors != {0}:
                raise RuntimeError(f"the broker answered with error codes {errors}")
            for log_partition in due:
                sent[log_partition] += 1
            self.total += sum(read_int32(batch, _COUNT_POSITION)[0] for batch in batches.values())
            self.acknowledged.append((time.monotonic(), self.total))
        return time.monotonic() - began


def _metadata_request() -> Any:
    topic = MetadataRequest.MetadataRequestTopic(name=OFFSETS_TOPIC)
    return MetadataRequest(topics=[topic], max_version=_LAST_VERSION_WITH_NAMES)


def _produce_request(batches: dict[int, Any]) -> Any:
    topic = ProduceRequest.TopicProduceData
    return ProduceRequest(
        acks=_ALL_REPLICAS,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[
            topic(
                name=OFFSETS_TOPIC,
                partition_data=[
                    topic.PartitionProduceData(
                        index=log_partition, records=_NO_BASE_OFFSET + batch[8:]
                    )
                    for log_partition, batch in batches.items()
                ],
            )
        ],
        max_version=_LAST_VERSION_WITH_NAMES,
    )


def micro_batches_behind(
    acknowledged: Sequence[tuple[float, int]], totals: Sequence[tuple[float, int]]
) -> list[int]:
    """How many micro-batches ended since all that is there was acknowledged, this one included.

    The first ones, before anything was, are left out.

    Args:
        acknowledged: when, and how many commits by then.
        totals: when each micro-batch ended, and how many commits were in the tables then.
    """
    times = np.array([at for at, _ in acknowledged])
    counts = np.array([0, *(count for _, count in acknowledged)])
    ends = np.array([at for at, _ in totals])
    by_then = counts[np.searchsorted(times, ends, side="right")]
    behind = []
    for number, (_, total) in enumerate(totals):
        whole = np.flatnonzero(by_then[: number + 1] <= total)
        if whole.size:
            behind.append(number - int(whole[-1]))
    return behind


if __name__ == "__main__":
    sustained(prog_name="python -m bench.sustained")
