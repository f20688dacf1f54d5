"""A log that is written during an incident, and its tables: in memory at each step, or Delta."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from operator import itemgetter
from pathlib import Path
from uuid import UUID

import pyarrow as pa

from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.records.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from coordinator_state.records.record_types import NO_PRODUCER_ID, RECORD_TYPES
from coordinator_state.records.serde import encode_value
from coordinator_state.replay.offsets import OffsetKey
from coordinator_state.replay.releases import NEWEST_RELEASE
from streaming.engine.micro_batch import MicroBatchApply
from streaming.lag.evaluation import Evaluation
from streaming.lag.paces import KnownPaces
from streaming.local.scenario.memory_tables import MemoryReader, MemoryWriter, apply_in_memory
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    LOG_OFFSETS,
    PROPERTY_LOG_PARTITIONS,
    PROPERTY_OFFSETS_RETENTION_MS,
    PROPERTY_SEMANTICS,
    SHARE_PARTITIONS,
)
from tests.support.logs.log_rows import (
    ABORT,
    COMMIT,
    Row,
    commit,
    marker,
    progress_row,
    record,
    table_of,
)
from tests.support.tables.every_table import create
from tests.support.tables.share_tables import share_partition
from tests.support.tables.tables_folder import start_apply, with_defaults, write_rows

BEGIN = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
"""The moment at which every incident begins."""
STEP_S = 5
"""The time between two micro-batches, and between two samples."""
OFFSETS_RETENTION_MS = 20 * 60_000
"""Of Delta tables."""
_SNAPSHOT_RETENTION = timedelta(days=36_500)
"""Longer ago than any incident."""
_Snapshot = tuple[datetime, dict[str, pa.Table]]
_PROPERTIES = {
    PROPERTY_LOG_PARTITIONS: "1",
    PROPERTY_SEMANTICS: "coordinator",
    PROPERTY_OFFSETS_RETENTION_MS: str(7 * 86_400_000),
}


def moment(seconds: float) -> datetime:
    """The moment so many seconds after the beginning."""
    return BEGIN + timedelta(seconds=seconds)


@dataclass
class Log:
    """The end of a log of a user topic, as brokers answer it."""

    end: int = 0
    start: int = 0
    open_at: int | None = None
    """The last stable offset while a transaction is open."""
    topic_id: str = "T"
    state: str = "present"


@dataclass
class Cluster:
    """`__consumer_offsets` and the logs of topics, written step by step, and the tables of both."""

    logs: dict[tuple[str, int], Log] = field(default_factory=lambda: defaultdict(Log))
    begin: datetime = BEGIN
    skew_s: int = 0
    """How far the brokers' clock is ahead of that of `run`."""
    log_partition: int = 0
    is_run_up: bool = True
    seconds: float = 0
    next_offset: int = 0
    _rows: list[Row] = field(default_factory=list)
    _memory: MemoryWriter = field(default_factory=MemoryWriter.create)
    _run: MicroBatchApply[pa.Table] = field(init=False)
    _shares: dict[str, Row] = field(default_factory=dict)
    _share_offset: int = 0
    _samples: list[Row] = field(default_factory=list)
    _snapshots: list[_Snapshot] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._run = apply_in_memory(self._memory, release=NEWEST_RELEASE, clock=lambda: self.now)

    @property
    def now(self) -> datetime:
        return self.begin + timedelta(seconds=self.seconds)

    @property
    def now_ms(self) -> int:
        """The time by the brokers' clock."""
        return round(self.now.timestamp() * 1000) + 1000 * self.skew_s

    def produce(self, topic: str, records: int, partition: int = 0) -> int:
        """Append records to a log; gives its end."""
        log = self.logs[topic, partition]
        log.end += records
        return log.end

    def commit(
        self,
        group_id: str,
        offset: int | None,
        partition: int = 0,
        topic: str = "",
        *,
        producer_id: int = NO_PRODUCER_ID,
        leader_epoch: int | None = 1,
    ) -> None:
        """Commit an offset, or delete it; by default the topic is named after the group."""
        key = OffsetKey(group_id, topic or group_id, partition)
        row = commit(self.next_offset, offset, key=key, producer_id=producer_id)
        if offset is not None:
            row |= {"commit_timestamp_ms": self.now_ms, "leader_epoch": leader_epoch}
        self._append(row)

    def end_transaction(self, producer_id: int, *, aborts: bool = False) -> None:
        self._append(marker(self.next_offset, producer_id, ABORT if aborts else COMMIT))

    def members(
        self,
        group_id: str,
        *topics: tuple[str, int],
        generation: int = 1,
        max_poll_ms: int = 60_000,
    ) -> None:
        """A classic group with a member to which all partitions of topics are assigned."""
        owned = {topic: list(range(size)) for topic, size in topics or ((group_id, 1),)}
        self.assign(group_id, {member_id_of("app-0", 0): owned}, generation, max_poll_ms)

    def no_members(self, group_id: str, generation: int = 1) -> None:
        self.assign(group_id, {}, generation)

    def assign(
        self,
        group_id: str,
        assigned: Mapping[str, Mapping[str, list[int]]],
        generation: int,
        max_poll_ms: int = 60_000,
    ) -> None:
        """A generation of a classic group; `assigned` has the partitions by member id and topic.

        A member id begins with the client id. A new group has the generation 0.
        """
        value = {
            **{"protocolType": "consumer" if generation else "", "generation": generation},
            **{"protocol": "range" if assigned else None, "leader": next(iter(assigned), None)},
            "currentStateTimestamp": self.now_ms,
            "members": [member_of(*member, max_poll_ms) for member in assigned.items()],
        }
        self.record(2, value, group=group_id)

    def delete_group(self, group_id: str) -> None:
        self.record(2, None, group=group_id)

    def record(self, number: int, fields: Row | None, **key: str) -> None:
        """Write a group record of a type; without fields it is a tombstone."""
        version = 3 if number == 2 else 0
        value = None if fields is None else encode_value(RECORD_TYPES[number], version, fields)
        self._append(record(self.next_offset, value, number, **key))

    def share_group(self, group_id: str) -> None:
        """A share group with a member."""
        member = {"clientId": "c", "clientHost": "/h", "subscribedTopicNames": [group_id]}
        current = {"memberEpoch": 1, "previousMemberEpoch": 0, "state": 0, "assignedPartitions": []}
        for number, fields in ((10, member), (11, {"epoch": 1, "metadataHash": 0}), (14, current)):
            key = {"memberId": "m"} if number != 11 else {}
            self.record(number, fields, groupId=group_id, **key)

    def acknowledge(self, group_id: str, start_offset: int) -> None:
        """A change of the delivery state of a share group; the topic is named after the group."""
        place: Row = {"topic": group_id, "record_offset": self._share_offset}
        row = share_partition(start_offset, at=self.now, group_id=group_id, **place)
        self._shares[group_id] = with_defaults("share_partitions", row)
        self._share_offset += 1

    def step(self, every_s: int = STEP_S) -> None:
        """`run` samples the logs, and applies a micro-batch every so many seconds."""
        if self.is_run_up:
            self.sample()
            if self.seconds % every_s == 0:
                self._apply()
        self.seconds += STEP_S

    def _apply(self) -> None:
        end, place = self.next_offset, self.log_partition
        rows = [*self._rows, progress_row(end - len(self._rows), end, log_partition=place)]
        self._rows = []
        if self._shares:
            shared = progress_row(0, self._share_offset, log_partition=0, records_read=0)
            rows.append(shared | {"log_topic": SHARE_STATE_TOPIC})
            shares = pa.Table.from_pylist([*self._shares.values()], SHARE_PARTITIONS.schema)
            self._memory.overwrite(SHARE_PARTITIONS, shares)
        self._run.progress.clock_skew_ms = 1000 * self.skew_s
        self._run.apply(table_of(rows), len(self._snapshots), "query")
        self._snapshots.append((self.now, dict(self._memory.rows_by_table)))

    def snapshots(self, tables: str) -> Snapshots:
        """The tables as of each micro-batch; `log_offsets` is also written to the folder."""
        write_rows(tables, "log_offsets", self._samples)
        samples = pa.Table.from_pylist(self._samples, LOG_OFFSETS.schema)
        return Snapshots(tables, self._snapshots, samples)

    def sample(self) -> None:
        """Sample the logs of all topics."""
        logs = {**self.logs, (OFFSETS_TOPIC, self.log_partition): Log(self.next_offset)}
        if self._shares:
            logs[SHARE_STATE_TOPIC, 0] = Log(self._share_offset)
        for (topic, partition), log in logs.items():
            row = {"topic": topic, "partition": partition, "state": log.state, "topic_id": None}
            if log.state == "present":
                row |= {"log_start_offset": min(log.start, log.end), "log_end_offset": log.end}
                row |= {"topic_id": log.topic_id, "end_markers": 0}
                if log.open_at is not None:
                    row["last_stable_offset"] = log.open_at
            self._samples.append(with_defaults("log_offsets", row | {"sampled_at": self.now}))

    def _append(self, row: Row) -> None:
        place = {"log_partition": self.log_partition, "record_timestamp_ms": self.now_ms}
        self._rows.append(row | place)
        self.next_offset += 1


@dataclass(frozen=True)
class Snapshots:
    """The tables as of each micro-batch."""

    tables: str
    by_time: Sequence[_Snapshot]
    samples: pa.Table

    def reader(self, at: datetime) -> TableReader | None:
        """The tables at a moment."""
        index = bisect_right(self.by_time, at, key=itemgetter(0)) - 1
        if index < 0:
            return None
        # Samples are written between micro-batches, too.
        rows = {**self.by_time[index][1], LOG_OFFSETS.name: self.samples}
        reader = MemoryReader(self, rows, at)
        reader.tables = self.tables
        return reader

    def evaluation(self, seconds: float, known: KnownPaces | None = None) -> Evaluation:
        """Lag and status so many seconds after the beginning."""
        reader = self.reader(moment(seconds))
        assert reader is not None, f"no micro-batch before {seconds} s"
        return Evaluation.of(reader, at=moment(seconds), known=known or KnownPaces())

    def statuses(self, seconds: float, known: KnownPaces | None = None) -> dict[str, Row]:
        """The rows of `group_status` by group."""
        rows = self.evaluation(seconds, known).statuses.to_pylist()
        return {row["group_id"]: row for row in rows}

    @property
    def properties(self) -> Mapping[str, str]:
        return _PROPERTIES


def member_id_of(client_id: str, number: int) -> str:
    """A member id as Kafka makes them: the client id and a UUID."""
    return f"{client_id}-{UUID(int=number)}"


def client_id_of(member_id: str) -> str:
    """The client id at the begin of a member id."""
    return member_id[: -len(f"-{UUID(int=0)}")]


def member_of(member_id: str, assigned: Mapping[str, list[int]], max_poll_ms: int = 60_000) -> Row:
    """A member in the value of a GroupMetadata record."""
    client_id = client_id_of(member_id)
    owned = [{"topic": topic, "partitions": partitions} for topic, partitions in assigned.items()]
    return {
        **{"memberId": member_id, "groupInstanceId": None, "clientId": client_id},
        "clientHost": f"/10.0.0.{len(client_id) + ord(client_id[-1]) % 10}",
        **{"rebalanceTimeout": max_poll_ms, "sessionTimeout": 45_000},
        "subscription": encode_subscription({"topics": list(assigned), "userData": None}),
        "assignment": encode_assignment({"assignedPartitions": owned, "userData": None}),
    }


def write_tables(folder: Path, clusters: Sequence[Cluster], log_partitions: int) -> str:
    """Write the Delta tables of clusters as of one, each with a log partition of its own."""
    tables = str(folder)
    create(tables, log_partitions=log_partitions, snapshot_retention=_SNAPSHOT_RETENTION)
    ends = {cluster.log_partition: cluster.next_offset for cluster in clusters}
    rows = [row for cluster in clusters for row in cluster._rows]
    rows += [
        progress_row(0, ends.get(number, 0), log_partition=number)
        for number in range(log_partitions)
    ]
    apply = start_apply(tables, offsets_retention_ms=OFFSETS_RETENTION_MS)
    apply.apply(table_of(rows), 0, "query")
    write_rows(tables, "log_offsets", [row for cluster in clusters for row in cluster._samples])
    return tables
