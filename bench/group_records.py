"""`python -m bench.group_records`: the records of classic groups, beside the broker's own load.

Each group rebalances again and again, with five members of a consumer group each time. A broker
loads the log, and `run` makes tables of it, twice in one session; those of the second time are held
against what the broker answers.
"""

from __future__ import annotations

import logging
import random
import struct
import sys
import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path

import click

from bench.backfill import FIRST, MEASURED, WARM, BackfillReport, broker_load, run_settings
from bench.findings import findings_option, write_findings
from coordinator_state.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.partitioner import DEFAULT_LOG_PARTITIONS, partition_for
from coordinator_state.record_batch_writer import write_record_batch
from coordinator_state.record_types import GROUP_METADATA_TYPE, RECORD_TYPES
from coordinator_state.serde import encode_key, encode_value
from streaming.answers.broker_answers import BrokerAnswers
from streaming.answers.table_answers import TableAnswers
from streaming.answers.verification import compare
from streaming.broker.embedded import EmbeddedBroker
from streaming.output import StderrHandler, output_of
from streaming.query import run_query
from streaming.session import build_session
from streaming.tables.reader import TableReader

_MEMBERS = 5
_PARTITIONS = 4
_VERSION = 3
_PROTOCOL_TYPE = "consumer"
# Behind the version and the protocol type with its length.
_GENERATION_POSITION = 2 + 2 + len(_PROTOCOL_TYPE)
_GROUPS_SAMPLED = 500
_LOAD_TIMEOUT_S = 600.0
_TARGET = "0.3 x broker"


def group_logs(records: int, groups: int, now_ms: int) -> dict[int, bytes]:
    """The log of each log partition: the groups one after the other, generation by generation."""
    record_type = RECORD_TYPES[GROUP_METADATA_TYPE]
    parts: dict[int, list[bytes]] = defaultdict(list)
    next_offset: dict[int, int] = defaultdict(int)
    stable = []
    for number in range(groups):
        group_id = f"group-{number:06d}"
        key = encode_key(record_type, {"group": group_id})
        value = bytearray(encode_value(record_type, _VERSION, _group(group_id, now_ms)))
        stable.append((partition_for(group_id, DEFAULT_LOG_PARTITIONS), key, value))
    for record in range(records):
        generation = record // groups + 1
        log_partition, key, value = stable[record % groups]
        struct.pack_into(">i", value, _GENERATION_POSITION, generation)
        offset = next_offset[log_partition]
        next_offset[log_partition] += 1
        parts[log_partition].append(write_record_batch(offset, [(0, now_ms, key, bytes(value))]))
    return {log_partition: b"".join(batches) for log_partition, batches in parts.items()}


def _group(group_id: str, now_ms: int) -> dict[str, object]:
    topic = f"topic-of-{group_id}"
    members = []
    for number in range(_MEMBERS):
        partitions = list(range(number * _PARTITIONS, (number + 1) * _PARTITIONS))
        members.append(
            {
                "memberId": f"client-{number}-7f0c7d5e-6a3b-4c55-8a57-{number:012d}",
                "groupInstanceId": None,
                "clientId": f"client-{number}",
                "clientHost": f"/10.0.0.{number}",
                "rebalanceTimeout": 300_000,
                "sessionTimeout": 1_800_000,
                "subscription": encode_subscription({"topics": [topic], "userData": None}, 0),
                "assignment": encode_assignment(
                    {
                        "assignedPartitions": [{"topic": topic, "partitions": partitions}],
                        "userData": None,
                    },
                    0,
                ),
            }
        )
    return {
        "protocolType": _PROTOCOL_TYPE,
        "generation": 0,
        "protocol": "range",
        "leader": members[0]["memberId"],
        "currentStateTimestamp": now_ms,
        "members": members,
    }


@click.command()
@click.option("--records", type=click.IntRange(min=1), default=200_000, show_default=True)
@click.option("--groups", type=click.IntRange(min=1), default=10_000, show_default=True)
@findings_option
def group_records(records: int, groups: int, findings: Path | None) -> None:
    """Compare the backfill of group records with the broker's own load of the same log."""
    logging.getLogger().handlers[:] = [StderrHandler()]
    logging.getLogger("bench").setLevel(logging.INFO)
    report = BackfillReport()
    with (
        tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as name,
        EmbeddedBroker(folder=Path(name) / "broker") as broker,
    ):
        broker.create_offsets_topic()
        logs = group_logs(records, groups, time.time_ns() // 1_000_000)
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
