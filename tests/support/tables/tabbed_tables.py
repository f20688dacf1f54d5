"""Tables of groups of each type, applied from records: for the tabs of a group's page."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from tests.support.tables.incident_tables import Cluster, member_id_of, member_of, write_tables

BILLING, LEDGER, PIPELINE, GONE = "billing", "ledger", "pipeline", "gone"
WORKERS, SINK = "connect-workers", "connect-sink"
CONSUMERS = tuple(member_id_of("biller", number) for number in range(3))
INVOICES, REFUNDS = 4, 2
"""The partitions of the topics that `billing` reads."""
LEDGER_PRODUCER = 9
_WORKER_ASSIGNMENT = bytes.fromhex(
    "0002000000027731000f687474703a2f2f77313a383038332f000000000000000700000001000473696e6b00000002"
    "ffffffff000000010000000100036f6c640000000100000003000493e0"
)
_WORKER_SUBSCRIPTION = (
    bytes.fromhex("0002000f687474703a2f2f77313a383038332f00000000000000070000004c")
    + _WORKER_ASSIGNMENT
)
"""As Kafka's own classes write them: `member_bytes` of the golden files."""


def create_tabbed_tables(folder: Path) -> str:
    """The tables of one micro-batch that ends now."""
    cluster = Cluster(begin=datetime.now(timezone.utc) - timedelta(minutes=10))
    for write in (_billing, _ledger, _pipeline, _connect, _gone):
        write(cluster)
    ends = {"invoices": [1_000] * INVOICES, "refunds": [50] * REFUNDS}
    for topic, records in {**ends, "accounts": [1_000], "orders": [1_000]}.items():
        for partition, count in enumerate(records):
            cluster.produce(topic, count, partition)
    cluster.seconds = 600
    cluster.sample()
    return write_tables(folder, [cluster], log_partitions=1)


def _billing(cluster: Cluster) -> None:
    """Two members with partitions and one without; one partition has almost all of the lag."""
    own: tuple[dict[str, list[int]], ...] = (
        {"invoices": [0, 1], "refunds": [0]},
        {"invoices": [2, 3], "refunds": [1]},
        {},
    )
    cluster.assign(BILLING, dict(zip(CONSUMERS, own, strict=True)), generation=3)
    for partition in range(INVOICES):
        cluster.commit(BILLING, 100 if partition == 3 else 990, partition, "invoices")
    for partition in range(REFUNDS):
        cluster.commit(BILLING, 50, partition, "refunds")


def _ledger(cluster: Cluster) -> None:
    """A committed transaction with two offsets, an aborted one, and an open one."""
    for offset, is_aborted in ((10, False), (20, True), (30, None)):
        for partition in (0, 1):
            cluster.commit(LEDGER, offset, partition, "accounts", producer_id=LEDGER_PRODUCER)
        if is_aborted is not None:
            cluster.seconds += 2
            cluster.end_transaction(LEDGER_PRODUCER, aborts=is_aborted)


def _pipeline(cluster: Cluster) -> None:
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
    cluster.record(17, {"epoch": 5, "metadataHash": 0}, groupId=PIPELINE)
    cluster.record(23, {"epoch": 5, "subtopologies": [subtopology]}, groupId=PIPELINE)
    for member, held, target in (("worker-1", tasks, tasks), ("worker-2", none, tasks)):
        key = {"groupId": PIPELINE, "memberId": member}
        cluster.record(
            19,
            {
                **{"clientId": "pipeline", "clientHost": "/10.0.0.7", "rebalanceTimeoutMs": 1},
                **{"topologyEpoch": 5, "processId": f"process-of-{member}"},
                **{"clientTags": [], "userEndpoint": None},
            },
            **key,
        )
        cluster.record(21, target, **key)
        current = {"memberEpoch": 5, "previousMemberEpoch": 4, "state": 1}
        with_epochs = {
            name: [{**task, "assignmentEpochs": None} for task in held_tasks]
            for name, held_tasks in held.items()
        }
        revoked: dict[str, Any] = {f"{name}PendingRevocation": [] for name in held}
        cluster.record(22, {**current, **with_epochs, **revoked}, **key)
    cluster.record(20, {"assignmentEpoch": 5}, groupId=PIPELINE)


def _connect(cluster: Cluster) -> None:
    """Workers of Kafka Connect, with bytes of its own classes, and the group of their sink."""
    worker = {
        **member_of(member_id_of("biller", 0), {}),
        **{"memberId": "w1", "subscription": _WORKER_SUBSCRIPTION},
        "assignment": _WORKER_ASSIGNMENT,
    }
    value = {
        **{"protocolType": "connect", "protocol": "sessioned", "generation": 3, "leader": "w1"},
        **{"currentStateTimestamp": 0, "members": [worker]},
    }
    cluster.record(2, value, group=WORKERS)
    cluster.commit(SINK, 400, topic="orders")


def _gone(cluster: Cluster) -> None:
    """A group that was deleted."""
    cluster.commit(GONE, 1, topic="orders")
    cluster.commit(GONE, None, topic="orders")
    cluster.delete_group(GONE)
