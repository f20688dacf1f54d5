"""`python -m bench.group_records`: the records of classic groups, beside the broker's own load.

Each group rebalances again and again with the same members, whose subscriptions name the generation
as those of Kafka's consumers do. A broker loads the log, and `run` makes tables of it, twice in one
session; those of the second time are held against what the broker answers.
"""

from __future__ import annotations

import logging
import random
import sys
import tempfile
import time
from collections import defaultdict
from functools import cache, partial
from pathlib import Path

import click

from bench.backfill import FIRST, MEASURED, WARM, BackfillReport, broker_load, run_settings
from bench.findings import findings_option, write_findings
from coordinator_state.model.log import CoordinatorLog
from coordinator_state.records.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    encode_assignment,
    encode_subscription,
)
from coordinator_state.records.record_types import GROUP_METADATA_TYPE, RECORD_TYPES
from coordinator_state.records.serde import encode_key, encode_value
from coordinator_state.replay.partitioner import DEFAULT_LOG_PARTITIONS, partition_for
from coordinator_state.wire.struct_reader import Fields
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.run.query import run_query
from streaming.run.session import build_session
from streaming.run.stderr import StderrHandler
from streaming.tables.reader import TableReader
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verification import compare
from streaming.views.output import output_of

_GROUP_METADATA = RECORD_TYPES[GROUP_METADATA_TYPE]
_PARTITIONS = 4
_SESSION_MS = 1_800_000
_GROUPS_SAMPLED = 500
_LOAD_TIMEOUT_S = 600.0
_TARGET = "1 x broker"


def group_logs(records: int, groups: int, members: int, now_ms: int) -> dict[int, bytes]:
    """The log of each log partition: all groups rebalance in turn."""
    logs: dict[int, CoordinatorLog] = defaultdict(CoordinatorLog)
    for number in range(records):
        generation, group = divmod(number, groups)
        group_id = f"group-{group:06d}"
        record = (
            encode_key(_GROUP_METADATA, {"group": group_id}),
            encode_value(_GROUP_METADATA, 3, _group(group_id, generation + 1, members, now_ms)),
        )
        logs[partition_for(group_id, DEFAULT_LOG_PARTITIONS)].append([record], now_ms)
    return {p: b"".join(log.raw) for p, log in logs.items()}


def _group(group_id: str, generation: int, members: int, now_ms: int) -> Fields:
    topic = f"topic-of-{group_id}"
    # A consumer names the generation that it leaves.
    subscribed = {"topics": [topic], "userData": None, "generationId": generation - 1}
    subscription = encode_subscription(subscribed)
    return {
        "protocolType": CONSUMER_PROTOCOL_TYPE,
        "generation": generation,
        "protocol": "range",
        "leader": f"member-0-of-{group_id}",
        "currentStateTimestamp": now_ms,
        "members": [
            {
                "memberId": f"member-{number}-of-{group_id}",
                "groupInstanceId": None,
                "clientId": f"client-{number}",
                "clientHost": "/10.0.0.1",
                "rebalanceTimeout": _SESSION_MS,
                "sessionTimeout": _SESSION_MS,
                "subscription": subscription,
                "assignment": _assignment(topic, number),
            }
            for number in range(members)
        ],
    }


@cache
def _assignment(topic: str, number: int) -> bytes:
    partitions = list(range(number * _PARTITIONS, (number + 1) * _PARTITIONS))
    topics = [{"topic": topic, "partitions": partitions}]
    return encode_assignment({"assignedPartitions": topics, "userData": None})


@click.command()
@click.option("--records", type=click.IntRange(min=1), default=200_000, show_default=True)
@click.option("--groups", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option(
    "--members", type=click.IntRange(min=1), default=5, show_default=True, help="Of each group."
)
@findings_option
def group_records(records: int, groups: int, members: int, findings: Path | None) -> None:
    """Compare the backfill of group records with the broker's own load of the same log."""
    logging.getLogger().handlers[:] = [StderrHandler()]
    logging.getLogger("bench").setLevel(logging.INFO)
    report = BackfillReport()
    with (
        tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as name,
        EmbeddedBroker(folder=Path(name) / "broker") as broker,
    ):
        broker.create_offsets_topic()
        logs = group_logs(records, groups, members, time.time_ns() // 1_000_000)
        broker.stop()
        for log_partition, log in logs.items():
            broker.replace_log(log_partition, log)
        broker.start()
        servers = broker.bootstrap_servers
        report.broker_load, _ = broker_load(broker.wait_until_loaded(_LOAD_TIMEOUT_S))
        report.measurements.append(report.broker_load)
        ids = [f"group-{number:06d}" for number in range(groups)]
        sample = random.Random(0).sample(ids, min(_GROUPS_SAMPLED, groups))
        # Before the members' sessions end, since nobody renews them.
        with BrokerAnswers(servers) as asked:
            answers = asked.answers(sample)
        session = build_session()
        try:
            for folder, title, target in (("first", FIRST, ""), ("second", WARM, _TARGET)):
                settings = run_settings(servers, Path(name) / folder)
                run = partial(run_query, settings, session=session)
                report.measure(title, records, run, target)
        finally:
            session.stop()
        tables = TableAnswers(TableReader(str(Path(name) / "second" / "tables")))
        verification = compare(answers, tables.answers(sample), answers)
    write_findings(findings, **report.findings)
    output = output_of("text")
    output.rows(report.rows, MEASURED)
    output.result({"is_equal": verification.is_equal}, verification.summary)
    sys.exit(0 if verification.is_equal else 1)


if __name__ == "__main__":
    group_records(prog_name="python -m bench.group_records")
