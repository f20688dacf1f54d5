"""Tables of groups of each type, applied from records: for the tabs of a group's page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_value
from coordinator_state.replay.offsets import OffsetKey
from tests.support.logs.log_rows import (
    ABORT,
    Row,
    commit,
    marker,
    progress_row,
    record,
    table_of,
)
from tests.support.tables.every_table import create
from tests.support.tables.sample_rows import sample
from tests.support.tables.tables_folder import start_apply, write_rows

BILLING, LEDGER, PIPELINE, GONE = "billing", "ledger", "pipeline", "gone"
WORKERS, SINK = "connect-workers", "connect-sink"
CONSUMERS = tuple(f"biller-{number}0000000-0000-0000-0000-000000000{number}" for number in range(3))
INVOICES, REFUNDS = 4, 2
"""The partitions of the topics that `billing` reads."""
LEDGER_PRODUCER = 9
_SECONDS = 600
_WORKER_ASSIGNMENT = bytes.fromhex(
    "0002000000027731000f687474703a2f2f77313a383038332f000000000000000700000001000473696e6b00000002"
    "ffffffff000000010000000100036f6c640000000100000003000493e0"
)
_WORKER_SUBSCRIPTION = (
    bytes.fromhex("0002000f687474703a2f2f77313a383038332f00000000000000070000004c")
    + _WORKER_ASSIGNMENT
)
"""As Kafka's own classes write them: `member_bytes` of the golden files."""


@dataclass
class _Log:
    """The only log partition of `__consumer_offsets`; a record each second up to now."""

    now: datetime
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        at = self.now - timedelta(seconds=_SECONDS - len(self.rows))
        at_ms = round(at.timestamp() * 1000)
        row |= {"log_partition": 0, "record_timestamp_ms": at_ms}
        if row["row_kind"] == "offset" and not row["is_tombstone"]:
            row["commit_timestamp_ms"] = at_ms
        self.rows.append(row)

    def commit(
        self, group_id: str, offset: int | None, topic: str, n: int = 0, **more: Any
    ) -> None:
        self.add(commit(len(self.rows), offset, key=OffsetKey(group_id, topic, n), **more))

    def end(self, producer_id: int, *control_type: int) -> None:
        self.add(marker(len(self.rows), producer_id, *control_type))

    def record(self, number: int, fields: Row | None, **key: str) -> None:
        version = 3 if number == 2 else 0
        value = None if fields is None else encode_value(RECORD_TYPES[number], version, fields)
        self.add(record(len(self.rows), value, number, **key))


def create_tabbed_tables(folder: Path) -> str:
    """The tables of one micro-batch that ends now."""
    tables = str(folder)
    create(tables, log_partitions=1)
    now = datetime.now(timezone.utc)
    log = _Log(now)
    for write in (_billing, _ledger, _pipeline, _connect, _gone):
        write(log)
    end = len(log.rows)
    report = progress_row(0, end, log_partition=0)
    start_apply(tables).apply(table_of([*log.rows, report]), 0, "query")
    samples = [
        ("__consumer_offsets", 0, end),
        *(("invoices", partition, 1_000) for partition in range(INVOICES)),
        *(("refunds", partition, 50) for partition in range(REFUNDS)),
        *((topic, 0, 1_000) for topic in ("accounts", "orders")),
    ]
    rows = [sample(now, log_end, topic, partition) for topic, partition, log_end in samples]
    write_rows(tables, "log_offsets", rows)
    return tables


def _billing(log: _Log) -> None:
    """Two members with partitions and one without; one partition has almost all of the lag."""
    own: tuple[list[tuple[str, list[int]]], ...] = (
        [("invoices", [0, 1]), ("refunds", [0])],
        [("invoices", [2, 3]), ("refunds", [1])],
        [],
    )
    members = [_consumer(*consumer) for consumer in zip(CONSUMERS, own, strict=True)]
    log.record(2, _classic("consumer", "range", members), group=BILLING)
    for partition in range(INVOICES):
        log.commit(BILLING, 100 if partition == 3 else 990, "invoices", partition)
    for partition in range(REFUNDS):
        log.commit(BILLING, 50, "refunds", partition)


def _ledger(log: _Log) -> None:
    """A committed transaction with two offsets, an aborted one, and an open one."""
    for offset, ends in ((10, ()), (20, (ABORT,)), (30, None)):
        for partition in (0, 1):
            log.commit(LEDGER, offset, "accounts", partition, producer_id=LEDGER_PRODUCER)
        if ends is not None:
            log.end(LEDGER_PRODUCER, *ends)


def _pipeline(log: _Log) -> None:
    """A streams group with a member that has all types of tasks and one that has to get one."""
    changelog = {"name": "counts-changelog", "partitions": 0, "replicationFactor": 3}
    subtopology = {
        **{"subtopologyId": "0", "sourceTopics": ["clicks"], "sourceTopicRegex": ["^page-.*"]},
        **{"stateChangelogTopics": [{**changelog, "topicConfigs": []}]},
        **{"repartitionSinkTopics": ["by-user"], "copartitionGroups": []},
        "repartitionSourceTopics": [
            {"name": "by-page", "partitions": 6, "replicationFactor": 1, "topicConfigs": []}
        ],
    }
    tasks = {
        name: [{"subtopologyId": "0", "partitions": partitions}]
        for name, partitions in (
            *(("activeTasks", [0, 1, 3]), ("standbyTasks", [2]), ("warmupTasks", [4])),
        )
    }
    none: dict[str, Any] = {name: [] for name in tasks}
    log.record(17, {"epoch": 5, "metadataHash": 0}, groupId=PIPELINE)
    log.record(23, {"epoch": 5, "subtopologies": [subtopology]}, groupId=PIPELINE)
    for member, held, target in (("worker-1", tasks, tasks), ("worker-2", none, tasks)):
        key = {"groupId": PIPELINE, "memberId": member}
        log.record(
            19,
            {
                **{"clientId": "pipeline", "clientHost": "/10.0.0.7", "rebalanceTimeoutMs": 1},
                **{"topologyEpoch": 5, "processId": f"process-of-{member}"},
                **{"clientTags": [], "userEndpoint": None},
            },
            **key,
        )
        log.record(21, target, **key)
        current = {"memberEpoch": 5, "previousMemberEpoch": 4, "state": 1}
        with_epochs = {
            name: [{**task, "assignmentEpochs": None} for task in held_tasks]
            for name, held_tasks in held.items()
        }
        revoked: dict[str, Any] = {f"{name}PendingRevocation": [] for name in held}
        log.record(22, {**current, **with_epochs, **revoked}, **key)
    log.record(20, {"assignmentEpoch": 5}, groupId=PIPELINE)


def _connect(log: _Log) -> None:
    """Workers of Kafka Connect, with bytes of its own classes, and the group of their sink."""
    member = _member("w1", _WORKER_SUBSCRIPTION, _WORKER_ASSIGNMENT)
    log.record(2, _classic("connect", "sessioned", [member]), group=WORKERS)
    log.commit(SINK, 400, "orders")


def _gone(log: _Log) -> None:
    """A group that was deleted."""
    log.commit(GONE, 1, "orders")
    log.commit(GONE, None, "orders")
    log.record(2, None, group=GONE)


def _classic(protocol_type: str, protocol: str, members: Sequence[Row]) -> Row:
    return {
        **{"protocolType": protocol_type, "protocol": protocol, "generation": 3},
        **{"leader": members[0]["memberId"], "currentStateTimestamp": 0, "members": members},
    }


def _consumer(member_id: str, own: Sequence[tuple[str, list[int]]]) -> Row:
    assigned = [{"topic": topic, "partitions": partitions} for topic, partitions in own]
    return _member(
        member_id,
        encode_subscription({"topics": ["invoices", "refunds"], "userData": None}),
        encode_assignment({"assignedPartitions": assigned, "userData": None}),
    )


def _member(member_id: str, subscription: bytes, assignment: bytes) -> Row:
    return {
        **{"memberId": member_id, "groupInstanceId": None, "clientId": "biller"},
        **{"clientHost": "/10.0.0.5", "rebalanceTimeout": 60_000, "sessionTimeout": 45_000},
        **{"subscription": subscription, "assignment": assignment},
    }
