"""`python -m bench.past`: the bytes that past moments need, and the seconds that one takes.

The tables are those of a cluster whose keys each commit every five seconds, three days ago: a base,
and the history of 130 seconds after it, the longest time to the next base at this rate.
The bytes of an hour are computed from the files of one snapshot: with one micro-batch a second,
snapshots of an hour were 3,600 and up to 600 that the next upkeep deleted. Snapshots of six minutes
are 360 and up to 30.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyarrow.dataset import dataset

from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.partitioner import partition_for
from streaming.tables import folder as tables_folder
from streaming.tables.base_maintenance import write_base
from streaming.tables.load_progress import LoadProgress
from streaming.tables.maintenance import tidy_up
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_OFFSETS,
    GROUPS,
    KEY_TABLES,
    LOAD_PROGRESS,
    OFFSET_COMMITS,
    STATE_CURRENT,
    Table,
)
from streaming.tables.writer_epoch import WriterEpoch
from streaming.views.output import output_of

LOG_PARTITIONS = 50
PARTITIONS_PER_GROUP = 10
COMMIT_INTERVAL_S = 5
DAYS_AGO = 3
HISTORY = timedelta(seconds=130)
_SNAPSHOTS_BEFORE, _SNAPSHOTS = 3_600 + 600, 360 + 30
_BASES_AN_HOUR = 28


@dataclass(frozen=True)
class Cluster:
    """Keys that commit at a constant rate."""

    tables: str
    keys: int
    since: datetime

    @property
    def groups(self) -> list[str]:
        """The group of each key."""
        return [f"group-{number // PARTITIONS_PER_GROUP}" for number in range(self.keys)]

    def write(self) -> None:
        """Write a base, the history after it, and a snapshot of now."""
        nothing = LoadProgress(cluster_id="c", topic_id="t", semantics=Semantics.COORDINATOR)
        tables_folder.create(self.tables, nothing, log_partitions=LOG_PARTITIONS)
        groups = self.groups
        names = sorted(set(groups))
        columns = {
            "group_id": pa.array(groups),
            "topic": pa.array([f"topic-{number % 100}" for number in range(self.keys)]),
            "partition": pa.array(np.arange(self.keys) // 100, pa.int32()),
            "log_partition": pa.array(
                [partition_for(group, LOG_PARTITIONS) for group in groups], pa.int32()
            ),
            "metadata": pa.array([""] * self.keys),
        }
        key = pa.table(columns)
        at_base = self._commits(key, 0, self.since)
        simple = {"group_type": "classic", "state": "Empty", "protocol_type": "", "member_count": 0}
        rows = {
            GROUP_OFFSETS: _rows(GROUP_OFFSETS, at_base),
            GROUPS: pa.Table.from_pylist(
                [
                    {"group_id": name, "log_partition": partition_for(name, LOG_PARTITIONS)}
                    | {**simple, "record_offset": -1, "generation": 0}
                    for name in names
                ],
                schema=GROUPS.schema,
            ),
        }
        first = self._progress(self.since, 1)
        properties = TableReader(self.tables).properties
        write_base(
            WriterEpoch.current(self.tables),
            self.since,
            {table: dataset(rows.get(table, table.schema.empty_table())) for table in KEY_TABLES},
            first,
            properties,
        )
        rounds = int(HISTORY.total_seconds()) // COMMIT_INTERVAL_S
        chunk: list[pa.Table] = []
        for number in range(1, rounds + 1):
            at = self.since + timedelta(seconds=COMMIT_INTERVAL_S * number)
            chunk.append(_rows(OFFSET_COMMITS, self._commits(key, number, at)))
            if len(chunk) * self.keys > 1_000_000 or number == rounds:
                write_deltalake(
                    OFFSET_COMMITS.path(self.tables), pa.concat_tables(chunk), mode="append"
                )
                chunk = []
        for table, content in rows.items():
            write_deltalake(table.path(self.tables), content, mode="overwrite")
        now = datetime.now(timezone.utc)
        progress = self._progress(now, (rounds + 1) * self.keys)
        write_deltalake(LOAD_PROGRESS.path(self.tables), progress, mode="overwrite")
        tidy_up(WriterEpoch.current(self.tables))

    def _commits(self, key: pa.Table, number: int, at: datetime) -> pa.Table:
        """One commit of each key."""
        count = self.keys
        offsets = pa.array(np.arange(count) + number * count)
        times = pa.array([at] * count, pa.timestamp("us", "UTC"))
        columns: dict[str, Any] = {
            "record_offset": offsets,
            "record_timestamp": times,
            "is_tombstone": pa.array(np.zeros(count, bool)),
            "committed_offset": pa.array(np.arange(count) + 100 * number),
            "commit_timestamp": times,
            "outcome": pa.array(["committed"] * count),
            "outcome_record_offset": offsets,
            "outcome_timestamp": times,
            "day": pa.array([at.date()] * count, pa.date32()),
        }
        for name, column in columns.items():
            key = key.append_column(name, column)
        return key

    def _progress(self, at: datetime, next_offset: int) -> pa.Table:
        versions = [(t.name, DeltaTable(t.path(self.tables)).version()) for t in KEY_TABLES]
        counts = dict.fromkeys(
            [f.name for f in LOAD_PROGRESS.schema if f.name.startswith("records_")], 0
        )
        row = {
            **counts,
            **{"state": STATE_CURRENT, "next_offset": next_offset, "high_watermark": next_offset},
            **{"cluster_id": "c", "topic_id": "t", "semantics": "coordinator", "bytes_read": 0},
            **{"query_id": "q", "batch_id": 0, "table_versions": versions, "updated_at": at},
            **{"current_at": at},
        }
        rows = [{"log_partition": number, **row} for number in range(LOG_PARTITIONS)]
        return pa.Table.from_pylist(rows, schema=LOAD_PROGRESS.schema)


def _rows(table: Table, rows: pa.Table) -> pa.Table:
    """Rows with the columns of a table; null for those that they lack."""
    count = rows.num_rows
    return pa.table(
        [
            rows[field.name].cast(field.type)
            if field.name in rows.column_names
            else pa.nulls(count, field.type)
            for field in table.schema
        ],
        schema=table.schema,
    )


def _mb(folder: str) -> float:
    return sum(file.stat().st_size for file in Path(folder).rglob("*.parquet")) / 1e6


@click.command()
@click.option("--keys", default=100_000, show_default=True)
@click.option("--runs", default=3, show_default=True, help="The fastest is reported.")
def bench(keys: int, runs: int) -> None:
    """Rebuild a moment of three days ago, and compute the bytes of an hour."""
    since = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(days=DAYS_AGO)
    with tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as folder:
        tables = f"{folder}/tables"
        cluster = Cluster(tables, keys, since)
        cluster.write()
        files = DeltaTable(GROUP_OFFSETS.path(tables)).get_add_actions(flatten=True)
        snapshot_mb = sum(pa.table(files)["size_bytes"].to_pylist()) / 1e6
        bases_mb = _BASES_AN_HOUR * _mb(f"{tables}/bases")
        rows = [
            {"what": "an hour of snapshots, before", "mb": _SNAPSHOTS_BEFORE * snapshot_mb},
            {"what": "six minutes of snapshots", "mb": _SNAPSHOTS * snapshot_mb},
            {"what": "bases of an hour", "mb": bases_mb},
            {"what": "offset_commits between two bases", "mb": _mb(OFFSET_COMMITS.path(tables))},
        ]
        output_of("text").rows([{**row, "mb": round(row["mb"], 1)} for row in rows], ["what", "mb"])
        moments = (timedelta(minutes=1), HISTORY / 2, HISTORY)
        taken = [
            {
                "seconds_after_base": after // timedelta(seconds=1),
                "all_s": min(_seconds(tables, since + after, None) for _ in range(runs)),
                "one_group_s": min(
                    _seconds(tables, since + after, ["group-7"]) for _ in range(runs)
                ),
            }
            for after in moments
        ]
        output_of("text").rows(taken, ["seconds_after_base", "all_s", "one_group_s"])


def _seconds(tables: str, moment: datetime, group_ids: list[str] | None) -> float:
    began = time.perf_counter()
    past = TableReader(tables).with_history(since=moment, until=moment, group_ids=group_ids)
    reader = past.at(moment)
    assert reader.rebuilt_from is not None
    offsets = reader.read(GROUP_OFFSETS.name)["committed_offset"].to_pylist()
    assert offsets
    return round(time.perf_counter() - began, 2)


if __name__ == "__main__":
    bench(prog_name="python -m bench.past")
