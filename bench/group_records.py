"""`python -m bench.group_records`: the records of classic groups, beside the broker's own load.

Each group rebalances again and again, with five members of a consumer group each time. A broker
loads the log, and `run` makes tables of it, twice in one session; those of the second time are held
against what the broker answers.
"""

from __future__ import annotations

import logging
import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import click

from bench.backfill import FIRST, MEASURED, WARM, BackfillReport, broker_load, run_settings
from bench.findings import findings_option, write_findings
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.requests import (
    JoinGroupRequest,
    JoinGroupResponse,
    Reply,
    SyncGroupRequest,
)
from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.replay.partitioner import DEFAULT_LOG_PARTITIONS, partition_for
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.run.query import run_query
from streaming.run.session import build_session
from streaming.run.stderr import StderrHandler
from streaming.tables.reader import TableReader
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verification import compare
from streaming.views.output import output_of

_MEMBERS = 5
_PARTITIONS = 4
_SESSION_MS = 1_800_000
_INITIAL_DELAY_MS = 3_000
_GROUPS_SAMPLED = 500
_LOAD_TIMEOUT_S = 600.0
_TARGET = "0.3 x broker"


def group_logs(records: int, groups: int, now_ms: int) -> dict[int, bytes]:
    """The log of each log partition: all groups rebalance in turn, as the model's coordinators do.

    The first generations are more records than one, since members come one after the other.
    """
    coordinators: dict[int, GroupCoordinator] = {}
    rebalancing = []
    for number in range(groups):
        group_id = f"group-{number:06d}"
        log_partition = partition_for(group_id, DEFAULT_LOG_PARTITIONS)
        if log_partition not in coordinators:
            coordinators[log_partition] = GroupCoordinator(seed=log_partition)
            coordinators[log_partition].advance(now_ms)
        rebalancing.append(_Members(coordinators[log_partition], group_id))
    while sum(coordinator.log.next_offset for coordinator in coordinators.values()) < records:
        joins = [members.join() for members in rebalancing]
        while not all(reply.is_done for replies in joins for reply in replies):
            # The first rebalance waits for more members.
            now_ms += _INITIAL_DELAY_MS
            for coordinator in coordinators.values():
                coordinator.advance(now_ms)
        for members, replies in zip(rebalancing, joins, strict=True):
            members.sync([reply.get() for reply in replies])
    return {p: b"".join(coordinator.log.raw) for p, coordinator in coordinators.items()}


class _Members:
    """The members of a group, who always are assigned the same."""

    def __init__(self, coordinator: GroupCoordinator, group_id: str) -> None:
        self._coordinator = coordinator
        self._group_id = group_id
        self._ids = [""] * _MEMBERS
        topic = f"topic-of-{group_id}"
        self._subscription = encode_subscription({"topics": [topic], "userData": None}, 0)
        self._assignments = []
        for number in range(_MEMBERS):
            partitions = list(range(number * _PARTITIONS, (number + 1) * _PARTITIONS))
            topics = [{"topic": topic, "partitions": partitions}]
            fields = {"assignedPartitions": topics, "userData": None}
            self._assignments.append(encode_assignment(fields, 0))

    def join(self) -> list[Reply[JoinGroupResponse]]:
        return [
            self._coordinator.join_group(
                JoinGroupRequest(
                    group_id=self._group_id,
                    member_id=member_id,
                    protocols=(("range", self._subscription),),
                    session_timeout_ms=_SESSION_MS,
                    client_id=f"client-{number}",
                    client_host=f"/10.0.0.{number}",
                    requires_known_member_id=False,
                )
            )
            for number, member_id in enumerate(self._ids)
        ]

    def sync(self, answers: list[JoinGroupResponse]) -> None:
        """The first one leads, and stores the group; the others are answered at once."""
        self._ids = [answer.member_id for answer in answers]
        assignments = dict(zip(self._ids, self._assignments, strict=True))
        for answer in answers:
            self._coordinator.sync_group(
                SyncGroupRequest(
                    group_id=self._group_id,
                    member_id=answer.member_id,
                    generation_id=answer.generation_id,
                    assignments=assignments,
                )
            )


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
