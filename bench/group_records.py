"""`python -m bench.group_records`: the records of groups, beside the broker's own load.

Each group rebalances again and again with the same members. A broker loads the log, and `run`
makes tables of it, twice in one session; those of the second time are held against what the broker
answers.
"""

from __future__ import annotations

import logging
import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from uuid import UUID

import click
from kafka.admin import KafkaAdminClient, NewTopic

from bench.backfill import FIRST, MEASURED, WARM, BackfillReport, broker_load, run_settings
from bench.findings import findings_option, write_findings
from bench.group_logs import (
    TOPIC,
    classic_rebalance,
    consumer_rebalance,
    group_ids,
    group_logs,
    topic_partitions,
)
from coordinator_state.wire.primitives import uuid_text
from streaming.engine.progress import ProgressEvent
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.run.query import run_query
from streaming.run.session import build_session
from streaming.run.stderr import StderrHandler
from streaming.tables.reader import TableReader
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verification import compare
from streaming.views.output import output_of

_GROUPS_SAMPLED = 500
_LOAD_TIMEOUT_S = 600.0
_TARGET = "1 x broker"
_GROUPS = {"classic": 10_000, "consumer": 1_500}
_MANY_MEMBERS = 1_000
# Kafka's default is 1 MB. The GroupMetadata value of a group of 10,000 members is larger.
_LARGE_RECORDS = {"message.max.bytes": 64 << 20}


@click.command()
@click.option(
    "--type",
    "group_type",
    type=click.Choice([*_GROUPS]),
    default="classic",
    show_default=True,
    help="Type of the groups.",
)
@click.option(
    "--groups",
    type=click.IntRange(min=1),
    help="Number of groups. [default: 1 if --members is 1000 or more, otherwise 10000 classic or "
    "1500 consumer groups]",
)
@click.option(
    "--members", type=click.IntRange(min=1), default=5, show_default=True, help="Of each group."
)
@click.option(
    "--rebalances",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Of each group. A single classic group has each in a micro-batch of its own.",
)
@findings_option
def group_records(
    group_type: str, groups: int | None, members: int, rebalances: int, findings: Path | None
) -> None:
    """Compare the backfill of group records with the broker's own load of the same log.

    Starts a broker and a Spark session of its own, and takes one to two minutes.
    """
    logging.getLogger().handlers[:] = [StderrHandler()]
    logging.getLogger("bench").setLevel(logging.INFO)
    if groups is None:
        groups = 1 if members >= _MANY_MEMBERS else _GROUPS[group_type]
    report = BackfillReport()
    micro_batches_ms: list[int] = []

    def finished(event: ProgressEvent) -> None:
        micro_batches_ms.append(event.duration_ms)

    with (
        tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as name,
        EmbeddedBroker(folder=Path(name) / "broker", properties=_LARGE_RECORDS) as broker,
    ):
        broker.create_offsets_topic()
        now_ms = time.time_ns() // 1_000_000
        rebalance, topic_names = classic_rebalance(members, now_ms), {}
        if group_type == "consumer":
            topic_id = _create_topic(broker.bootstrap_servers, topic_partitions(members))
            rebalance = consumer_rebalance(members, topic_id)
            topic_names = {uuid_text(topic_id): TOPIC}
        logs = group_logs(rebalance, groups=groups, rebalances=rebalances, now_ms=now_ms)
        records = sum(log.next_offset for log in logs.values())
        broker.stop()
        for log_partition, log in logs.items():
            broker.replace_log(log_partition, b"".join(log.raw))
        broker.start()
        servers = broker.bootstrap_servers
        report.broker_load, _ = broker_load(broker.wait_until_loaded(_LOAD_TIMEOUT_S))
        report.measurements.append(report.broker_load)
        ids = group_ids(groups)
        sample = random.Random(0).sample(ids, min(_GROUPS_SAMPLED, groups))
        # Before the members' sessions end, since nobody renews them.
        with BrokerAnswers(servers) as asked:
            answers = asked.answers(sample)
        session = build_session()
        try:
            for folder, title, target in (("first", FIRST, ""), ("second", WARM, _TARGET)):
                # The broker's load asks for no log ends of the topics that the groups read.
                options: dict[str, object] = {"lag_interval": "off"}
                if groups == 1 and group_type == "classic":
                    options["max_records_per_trigger"] = 1
                settings = run_settings(servers, Path(name) / folder).model_copy(update=options)
                micro_batches_ms.clear()
                run = partial(run_query, settings, on_progress=finished, session=session)
                report.measure(title, records, run, target if groups > 1 else "")
        finally:
            session.stop()
        tables = TableAnswers(TableReader(str(Path(name) / "second" / "tables")))
        verification = compare(answers, tables.answers(sample, topic_names), answers)
    micro_batch_ms = median(micro_batches_ms)
    write_findings(findings, micro_batch_ms=micro_batch_ms, **report.findings)
    output = output_of("text")
    output.rows(report.rows, MEASURED)
    output.result(
        {"micro_batches": len(micro_batches_ms), "micro_batch_ms": micro_batch_ms},
        f"{len(micro_batches_ms)} micro-batches, each {micro_batch_ms:.0f} ms (p50), at most "
        f"{max(micro_batches_ms)} ms",
    )
    output.result({"is_equal": verification.is_equal}, verification.summary)
    sys.exit(0 if verification.is_equal else 1)


def _create_topic(bootstrap_servers: str, partitions: int) -> UUID:
    """Create the topic that consumer groups read, and return its id."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        admin.create_topics([NewTopic(TOPIC, partitions, 1)], wait_for_metadata=True)
        (topic,) = admin.describe_topics([TOPIC])
        return UUID(str(topic["topic_id"]))
    finally:
        admin.close()


if __name__ == "__main__":
    group_records(prog_name="python -m bench.group_records")
