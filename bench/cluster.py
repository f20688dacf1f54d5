"""Tables of a large cluster with few versions: a snapshot, and one of five minutes before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from coordinator_state.insight.lag import PRESENT
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.partitioner import partition_for
from streaming.lag.group_lag import RATE_WINDOWS
from streaming.tables import folder as tables_folder
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import (
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUPS,
    LOAD_PROGRESS,
    LOG_OFFSETS,
    STATE_CURRENT,
    TABLES,
    Table,
)
from tests.support.tables.tables_folder import backdate

LOG_PARTITIONS = 50
SAMPLE_EVERY = timedelta(seconds=5)
SAMPLED_FOR = timedelta(minutes=10)
RECORDS_PER_S = 200
_PARTITIONS_PER_TOPIC = 50
_WORST_LAG_S = 30


@dataclass(frozen=True, slots=True)
class Cluster:
    """Groups of equal size, each with some of the topic partitions, all of them being written."""

    groups: int
    partitions_per_group: int
    topic_partitions: int
    now: datetime

    def write(self, tables: str) -> None:
        """The tables, with what a snapshot of five minutes before needs."""
        self._write_offsets(tables, RATE_WINDOWS[0])
        names = [f"group-{number}" for number in range(self.groups)]
        own = [partition_for(name, LOG_PARTITIONS) for name in names]
        same = {"log_partition": own, "group_id": names}
        _append(tables, GROUPS, {**same, **_GROUP})
        size = self.partitions_per_group
        owned = [
            [{"topic": topic, "partition": partition} for topic, partition in self._logs_of(group)]
            for group in range(self.groups)
        ]
        half: dict[str, object] = {"log_partition": own * 2, "group_id": names * 2, **_MEMBER}
        half["member_id"] = [f"{name}-{side}" for side in "ab" for name in names]
        half["assignment"] = [
            *(assignment[: size // 2] for assignment in owned),
            *(assignment[size // 2 :] for assignment in owned),
        ]
        _append(tables, GROUP_MEMBERS, half)
        self._write_progress(tables, RATE_WINDOWS[0] + SAMPLE_EVERY)
        self._write_offsets(tables, timedelta())
        self._write_progress(tables, timedelta())
        self._write_samples(tables)

    def _logs_of(self, group: int) -> list[tuple[str, int]]:
        first = group * self.partitions_per_group
        return [
            self._log((first + number) % self.topic_partitions)
            for number in range(self.partitions_per_group)
        ]

    @staticmethod
    def _log(number: int) -> tuple[str, int]:
        return f"topic-{number // _PARTITIONS_PER_TOPIC}", number % _PARTITIONS_PER_TOPIC

    def _write_offsets(self, tables: str, ago: timedelta) -> None:
        rows = [
            (f"group-{group}", *log) for group in range(self.groups) for log in self._logs_of(group)
        ]
        group_ids, topics, partitions = zip(*rows, strict=True)
        lag_s = np.random.default_rng(1).exponential(3, len(rows)).clip(0, _WORST_LAG_S)
        moment = self.now - ago
        columns = {
            "log_partition": [partition_for(group_id, LOG_PARTITIONS) for group_id in group_ids],
            "group_id": group_ids,
            "topic": topics,
            "partition": partitions,
            "committed_offset": self._log_end(moment) - (RECORDS_PER_S * lag_s).astype(np.int64),
            "metadata": "",
            "commit_timestamp": moment,
            "record_offset": np.arange(len(rows)),
        }
        _append(tables, GROUP_OFFSETS, columns, mode="overwrite")

    def _log_end(self, moment: datetime) -> int:
        return round(RECORDS_PER_S * (86_400 - (self.now - moment).total_seconds()))

    def _write_progress(self, tables: str, ago: timedelta) -> None:
        versions = {
            table.name: DeltaTable(table.path(tables)).version()
            for table in TABLES
            if table is not LOAD_PROGRESS
        }
        columns = {
            **_PROGRESS,
            "log_partition": range(LOG_PARTITIONS),
            "table_versions": [list(versions.items())] * LOG_PARTITIONS,
            "updated_at": self.now - ago,
        }
        _append(tables, LOAD_PROGRESS, columns, mode="overwrite")
        backdate(tables, LOAD_PROGRESS, self.now - ago)

    def _write_samples(self, tables: str) -> None:
        topics, partitions = zip(*map(self._log, range(self.topic_partitions)), strict=True)
        for ago in range(0, round(SAMPLED_FOR / SAMPLE_EVERY)):
            moment = self.now - ago * SAMPLE_EVERY
            columns = {
                "topic": topics,
                "partition": partitions,
                "sampled_at": moment,
                "state": PRESENT,
                "topic_id": topics,
                "log_start_offset": 0,
                "log_end_offset": self._log_end(moment),
                "last_stable_offset": self._log_end(moment),
                "day": moment.date(),
            }
            _append(tables, LOG_OFFSETS, columns)


def create(tables: str) -> None:
    """Empty tables, as a run makes them."""
    progress = LoadProgress(cluster_id="bench", topic_id="bench", semantics=Semantics.COORDINATOR)
    tables_folder.create(tables, progress, log_partitions=LOG_PARTITIONS, change_data_feed=False)


_GROUP = {
    "group_type": "classic",
    "state": "Stable",
    "protocol_type": "consumer",
    "member_count": 2,
    "record_offset": 0,
}
_MEMBER = {"client_id": "client", "client_host": "/10.0.0.1", "record_offset": 0}
_PROGRESS = {
    **{"state": STATE_CURRENT, "next_offset": 1, "high_watermark": 1, "cluster_id": "bench"},
    **{"topic_id": "bench", "semantics": Semantics.COORDINATOR.value, "query_id": "bench"},
    **{"records_read": 1, "records_applied": 1, "records_superseded": 0, "records_ignored": 0},
    **{"records_quarantined": 0, "records_pending": 0, "bytes_read": 0, "batch_id": 0},
}


def _append(
    tables: str,
    table: Table,
    columns: dict[str, object],
    *,
    mode: Literal["append", "overwrite"] = "append",
) -> None:
    """Write rows; a column of one value is that of every row, one that is left out is null."""
    size = max(len(c) for c in columns.values() if isinstance(c, (list, tuple, range, np.ndarray)))
    arrays = []
    for field in table.schema:
        values = columns.get(field.name)
        if not isinstance(values, (list, tuple, range, np.ndarray)):
            values = pa.repeat(pa.scalar(values, field.type), size)
        arrays.append(pa.array(values, field.type))
    write_deltalake(table.path(tables), pa.table(arrays, schema=table.schema), mode=mode)
