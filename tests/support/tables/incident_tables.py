"""Tables of a log that is written during an incident, in memory, as of each micro-batch."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
from pyarrow.parquet import filters_to_expression

from coordinator_state.apply.columns import columns_of, nullable
from coordinator_state.apply.rows import (
    COORDINATOR_RECORD_ROW,
    GROUP_EVENT_ROW,
    GROUP_MEMBER_ROW,
    GROUP_OFFSET_ROW,
    GROUP_ROW,
    OFFSET_COMMIT_ROW,
    PENDING_OFFSET_ROW,
)
from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC
from coordinator_state.records.record_types import NO_PRODUCER_ID, RECORD_TYPES
from coordinator_state.records.serde import encode_value
from coordinator_state.replay.offsets import OffsetKey, Semantics
from streaming.tables.filters import Filters, of_groups
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    ALL_TABLES,
    PROPERTY_LOG_PARTITIONS,
    PROPERTY_OFFSETS_RETENTION_MS,
    PROPERTY_SEMANTICS,
)
from tests.support.logs.log_rows import ABORT, COMMIT, Row, commit, marker, record, table_of
from tests.support.tables.plan_tables import PlanTables
from tests.support.tables.tables_folder import with_defaults, write_rows

BEGIN = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
"""The moment at which every incident begins."""
STEP_S = 5
"""The time between two micro-batches, and between two samples."""
OWN_LOG = ("__consumer_offsets", 0)
_SCHEMAS = {table.name: table.schema for table in ALL_TABLES}
_ROWS = {
    "group_offsets": GROUP_OFFSET_ROW,
    "pending_offsets": PENDING_OFFSET_ROW,
    "groups": GROUP_ROW,
    "group_members": GROUP_MEMBER_ROW,
    "coordinator_records": COORDINATOR_RECORD_ROW,
    "offset_commits": OFFSET_COMMIT_ROW,
    "group_events": GROUP_EVENT_ROW,
}
_PROPERTIES = {
    PROPERTY_LOG_PARTITIONS: "1",
    PROPERTY_SEMANTICS: "coordinator",
    PROPERTY_OFFSETS_RETENTION_MS: str(7 * 86_400_000),
}


def moment(seconds: float) -> datetime:
    """The moment so many seconds after the beginning."""
    return BEGIN + timedelta(seconds=seconds)


def ms(seconds: float) -> int:
    return round(moment(seconds).timestamp() * 1000)


@dataclass
class Log:
    """The end of a log of a user topic, as brokers answer it."""

    end: int = 0
    start: int = 0
    open_at: int | None = None
    """The last stable offset while a transaction is open."""
    state: str = "present"


@dataclass
class Cluster:
    """`__consumer_offsets` and the logs of topics, written step by step, and the tables of both."""

    logs: dict[tuple[str, int], Log] = field(default_factory=lambda: defaultdict(Log))
    is_run_up: bool = True
    seconds: float = 0
    _next_offset: int = 0
    _rows: list[Row] = field(default_factory=list)
    _plan: PlanTables = field(default_factory=lambda: PlanTables(Semantics.COORDINATOR))
    _groups: dict[tuple[int, str], Row] = field(default_factory=dict)
    _shares: dict[str, Row] = field(default_factory=dict)
    _share_offset: int = 0
    _samples: list[Row] = field(default_factory=list)
    _snapshots: list[_Snapshot] = field(default_factory=list)

    def produce(self, topic: str, records: int, partition: int = 0) -> int:
        """Append records to a log; gives its end."""
        log = self.logs[topic, partition]
        log.end += records
        return log.end

    def commit(self, group_id: str, offset: int, partition: int = 0, topic: str = "") -> None:
        """A plain commit; by default the topic is named after the group."""
        self._offset(group_id, offset, partition, topic)

    def commit_in_transaction(self, producer_id: int, group_id: str, offset: int) -> None:
        self._offset(group_id, offset, 0, "", producer_id)

    def end_transaction(self, producer_id: int, *, aborts: bool = False) -> None:
        self._append(marker(self._next_offset, producer_id, ABORT if aborts else COMMIT))

    def members(
        self, group_id: str, *topics: tuple[str, int], generation: int = 1, count: int = 1
    ) -> None:
        """A classic group with members to which the partitions of topics are assigned."""
        topics = topics or ((group_id, 1),)
        own = [
            [
                {"topic": topic, "partitions": [p for p in range(size) if p % count == number]}
                for topic, size in topics
            ]
            for number in range(count)
        ]
        self._append(
            record(self._next_offset, _group_value(own, topics, generation), group=group_id)
        )

    def no_members(self, group_id: str, generation: int = 1) -> None:
        self._append(record(self._next_offset, _group_value([], (), generation), group=group_id))

    def share_group(self, group_id: str) -> None:
        """A share group with a member."""
        member = {"clientId": "c", "clientHost": "/h", "subscribedTopicNames": [group_id]}
        current = {"memberEpoch": 1, "previousMemberEpoch": 0, "state": 0, "assignedPartitions": []}
        for number, fields in ((10, member), (11, {"epoch": 1, "metadataHash": 0}), (14, current)):
            value = encode_value(RECORD_TYPES[number], 0, fields)
            key = {"memberId": "m"} if number != 11 else {}
            self._append(record(self._next_offset, value, number, groupId=group_id, **key))

    def acknowledge(self, group_id: str, start_offset: int) -> None:
        """A change of the delivery state of a share group; the topic is named after the group."""
        self._shares[group_id] = {
            **{"log_partition": 0, "group_id": group_id, "topic_id": "T", "partition": 0},
            **{"topic": group_id, "state_epoch": 0, "leader_epoch": 0, "snapshot_epoch": 0},
            **{"start_offset": start_offset, "delivery_complete_count": 0, "state_batches": []},
            "delivery_timestamp": moment(self.seconds),
            "record_offset": self._share_offset,
        }
        self._share_offset += 1

    def step(self) -> None:
        """`run` samples the logs and applies a micro-batch."""
        if self.is_run_up:
            self._sample()
            if self._rows:
                applied = self._plan.apply(table_of(self._rows), self._next_offset)
                self._rows = []
                for row in applied.groups.to_pylist():
                    key = row["log_partition"], row["group_id"]
                    self._groups.pop(key, None)
                    if not row["is_deleted"]:
                        self._groups[key] = row
            self._snapshots.append(self._snapshot())
        self.seconds += STEP_S

    def snapshots(self, tables: str) -> Snapshots:
        """The tables as of each micro-batch; `log_offsets` is also written to the folder."""
        history = {
            "offset_commits": _table("offset_commits", [*self._plan.history.values()]),
            "group_events": _table("group_events", self._plan.events),
            "log_offsets": pa.Table.from_pylist(self._samples, _SCHEMAS["log_offsets"]),
        }
        write_rows(tables, "log_offsets", self._samples)
        return Snapshots(tables, self._snapshots, history)

    def _offset(
        self, group_id: str, offset: int, partition: int, topic: str, producer: int = NO_PRODUCER_ID
    ) -> None:
        key = OffsetKey(group_id, topic or group_id, partition)
        times = {"commit_timestamp_ms": ms(self.seconds)}
        row = commit(self._next_offset, offset, key=key, producer_id=producer, **times)
        self._append(row | {"leader_epoch": 1})

    def _append(self, row: Row) -> None:
        self._rows.append(row | {"record_timestamp_ms": ms(self.seconds)})
        self._next_offset += 1

    def _sample(self) -> None:
        at = moment(self.seconds)
        for (topic, partition), log in (
            *self.logs.items(),
            (OWN_LOG, Log(self._next_offset)),
            ((SHARE_STATE_TOPIC, 0), Log(self._share_offset)),
        ):
            row = {"topic": topic, "partition": partition, "sampled_at": at, "state": log.state}
            if log.state == "present":
                row |= {"log_start_offset": log.start, "log_end_offset": log.end}
                if log.open_at is not None:
                    row["last_stable_offset"] = log.open_at
            self._samples.append(with_defaults("log_offsets", row))

    def _snapshot(self) -> _Snapshot:
        plan = self._plan
        state = {
            "group_offsets": _table("group_offsets", [*plan.offsets.values()]),
            "pending_offsets": _table("pending_offsets", plan.pending.to_pylist()),
            "groups": _table("groups", [*self._groups.values()]),
            "group_members": _table("group_members", [*plan.members.values()]),
            "coordinator_records": _table("coordinator_records", [*plan.records.values()]),
            "share_partitions": pa.Table.from_pylist(
                [*self._shares.values()], _SCHEMAS["share_partitions"]
            ),
            "topic_progress": self._read_to(
                "topic_progress", self._share_offset, log_topic=SHARE_STATE_TOPIC
            ),
            "load_progress": self._read_to("load_progress", self._next_offset),
        }
        sizes = {"offset_commits": len(plan.history), "group_events": len(plan.events)}
        return _Snapshot(moment(self.seconds), state, sizes)

    def _read_to(self, table: str, log_end: int, **columns: str) -> pa.Table:
        """A table of progress, by which all records of a log are applied."""
        ends = {"next_offset": log_end, "high_watermark": log_end}
        row = with_defaults(table, {"updated_at": moment(self.seconds), **ends, **columns})
        return pa.Table.from_pylist([row], _SCHEMAS[table])


@dataclass(frozen=True)
class _Snapshot:
    at: datetime
    state: dict[str, pa.Table]
    sizes: dict[str, int]


@dataclass(frozen=True)
class Snapshots:
    """The tables as of each micro-batch."""

    tables: str
    by_time: Sequence[_Snapshot]
    history: dict[str, pa.Table]

    def reader(self, at: datetime) -> TableReader | None:
        """The tables at a moment."""
        index = bisect_right([snapshot.at for snapshot in self.by_time], at) - 1
        return None if index < 0 else _MemoryReader(self, self.by_time[index], at)


class _MemoryReader(TableReader):
    """A reader whose tables are in memory."""

    def __init__(self, snapshots: Snapshots, snapshot: _Snapshot, at: datetime) -> None:
        self.tables = snapshots.tables
        self._snapshots, self._snapshot = snapshots, snapshot
        self._properties = _PROPERTIES
        self._progress = snapshot.state["load_progress"]
        self.is_consistent = True
        self._as_of = at

    @property
    def moment(self) -> datetime:
        assert isinstance(self._as_of, datetime)
        return self._as_of

    @property
    def rebuilt_from(self) -> None:
        """Never rebuilt from history."""

    def before(self, moment: datetime) -> TableReader | None:
        return self._snapshots.reader(moment)

    def read(
        self, name: str, columns: Sequence[str] | None = None, filters: Filters | None = None
    ) -> pa.Table:
        rows = self._snapshot.state.get(name)
        if rows is None and name not in self._snapshots.history:
            # Incidents are of a run that does not follow `__transaction_state`.
            rows = _SCHEMAS[name].empty_table()
        elif rows is None:
            rows = self._snapshots.history[name]
            rows = rows.slice(0, self._snapshot.sizes.get(name, rows.num_rows))
        if isinstance(filters, list):
            filters = filters_to_expression(filters)
        rows = rows if filters is None else rows.filter(filters)
        return rows if columns is None else rows.select(list(columns))

    def own(
        self, name: str, columns: Sequence[str], group_ids: Collection[str] | None = None
    ) -> pa.Table:
        wanted = list(dict.fromkeys([*columns, "group_id", "log_partition"]))
        return self.read(name, wanted, of_groups(group_ids))


def _table(name: str, rows: Sequence[Row]) -> pa.Table:
    """Rows of a micro-batch as a table, all in log partition 0."""
    schema = _SCHEMAS[name]
    if not rows:
        return schema.empty_table()
    in_place = [row | {"log_partition": 0} for row in rows]
    return columns_of(pa.Table.from_pylist(in_place, nullable(_ROWS[name])), schema)


def _group_value(
    assigned: Sequence[Sequence[Row]], topics: Sequence[tuple[str, int]], generation: int
) -> bytes:
    subscription = encode_subscription({"topics": [t for t, _ in topics], "userData": None})
    members = [
        {
            **{"memberId": f"m{number}", "groupInstanceId": None, "clientId": f"app-{number}"},
            **{"clientHost": f"/10.0.0.{number}", "rebalanceTimeout": 60_000},
            **{"sessionTimeout": 45_000, "subscription": subscription},
            "assignment": encode_assignment({"assignedPartitions": own, "userData": None}),
        }
        for number, own in enumerate(assigned)
    ]
    return encode_value(
        RECORD_TYPES[2],
        3,
        {
            **{"protocolType": "consumer", "generation": generation},
            **{"protocol": "range" if members else None, "leader": "m0" if members else None},
            **{"currentStateTimestamp": 0, "members": members},
        },
    )


def only(rows: Sequence[dict[str, Any]], group_id: str) -> dict[str, Any] | None:
    """The row of a group; None without one."""
    return next((row for row in rows if row["group_id"] == group_id), None)
