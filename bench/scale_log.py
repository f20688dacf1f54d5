"""The log of `bench.scale`, as files of packed rows, and the tables that it must give."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coordinator_state.apply.columns import per_row
from coordinator_state.log.log_rows import PACKED_ROW_SCHEMA, pack
from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.model.log import Written
from coordinator_state.model.micro_batches import micro_batch
from coordinator_state.model.plain_commits import PARTITIONS_PER_GROUP, PlainCommits
from coordinator_state.records.record_types import GROUP_METADATA_TYPE, RECORD_TYPES
from coordinator_state.records.serde import encode_key, encode_value
from coordinator_state.replay.partitioner import DEFAULT_LOG_PARTITIONS, partition_for
from streaming.tables.reader import TableReader

SMALL_COMMITS = 1_000
LARGE_COMMITS = 300_000
LOAD, MEMBERS = "load", "load of members"
SMALL, LARGE = "1,000 commits", "300,000 commits"
_MOST_COMMITS = 2_000_000
"""Of a micro-batch of the first load."""
_MEMBERS_PER_GROUP = 20
_MOST_GROUPS_WITH_MEMBERS = 100_000
_MOST_GROUPS = 10_000
"""Of a micro-batch of members."""
_PACKED_ROWS = 10_000
_EXPECTED = "expected.npy"


@dataclass(frozen=True, slots=True)
class ScaleLog:
    """A folder with one Parquet file for each micro-batch, in order."""

    folder: Path

    @property
    def micro_batches(self) -> list[tuple[str, Path]]:
        """The kind of each micro-batch, and its file."""
        files = sorted(self.folder.glob("*.parquet"))
        return [(file.stem.partition("-")[2], file) for file in files]

    def write(self, keys: int, from_ms: int) -> None:
        """Write the micro-batches: members, a first commit of every key, commits of few groups.

        All commits are of `PlainCommits`. A key is a partition of a group; a group has ten. The
        first 100,000 groups have 20 members.
        """
        self.folder.mkdir(parents=True)
        expected = np.full(keys, -1, np.int64)
        next_offsets: dict[int, int] = {}
        plan = [(LOAD, keys), *[(SMALL, SMALL_COMMITS)] * 3, *[(LARGE, LARGE_COMMITS)] * 2]
        plan += [(SMALL, SMALL_COMMITS)]
        number = 0
        with_members = min(keys // PARTITIONS_PER_GROUP, _MOST_GROUPS_WITH_MEMBERS)
        for rows in _members(with_members, from_ms, next_offsets):
            _write(rows, self.folder / f"{number:04d}-{MEMBERS}.parquet")
            number += 1
        for seed, (kind, commits) in enumerate(plan):
            if commits > keys:
                continue
            log = PlainCommits(commits, min(keys, commits), from_ms, seed)
            for rows in _micro_batches(log, next_offsets):
                _remember(expected, rows)
                _write(rows, self.folder / f"{number:04d}-{kind}.parquet")
                number += 1
        np.save(self.folder / _EXPECTED, expected)

    def differences(self, tables: str) -> int:
        """The number of keys and members that the tables have otherwise than the log."""
        members = TableReader(tables).read("group_members", ["group_id"]).num_rows
        expected = np.load(self.folder / _EXPECTED)
        names = ["group_id", "partition", "committed_offset"]
        rows = TableReader(tables).read("group_offsets", names)
        committed = np.full(expected.size, -1, np.int64)
        committed[_keys(rows)] = rows["committed_offset"].to_numpy()
        groups = min(expected.size // PARTITIONS_PER_GROUP, _MOST_GROUPS_WITH_MEMBERS)
        missing: int = abs(rows.num_rows - expected.size) + abs(
            members - groups * _MEMBERS_PER_GROUP
        )
        return int(np.count_nonzero(committed != expected)) + missing


def _members(groups: int, from_ms: int, next_offsets: dict[int, int]) -> Iterator[pa.Table]:
    """Micro-batches with a generation of each group."""
    group_metadata = RECORD_TYPES[GROUP_METADATA_TYPE]
    value = encode_value(group_metadata, 3, _generation(from_ms))
    for start in range(0, groups, _MOST_GROUPS):
        keys: dict[int, list[bytes]] = {p: [] for p in range(DEFAULT_LOG_PARTITIONS)}
        for number in range(start, min(start + _MOST_GROUPS, groups)):
            group_id = f"group-{number:06d}"
            key = encode_key(group_metadata, {"group": group_id})
            keys[partition_for(group_id)].append(key)
        written = []
        for p, own in keys.items():
            first = next_offsets.get(p, 0)
            end = next_offsets[p] = first + len(own)
            records = [(delta, from_ms, key, value) for delta, key in enumerate(own)]
            raw = write_record_batch(first, records, compression="zstd") if own else b""
            written.append(Written(p, raw, first, end, end))
        yield micro_batch(written)


def _generation(at_ms: int) -> dict[str, Any]:
    """A GroupMetadata value: each member has one partition of a topic."""
    subscription = struct.pack(">hih9si", 0, 1, 9, b"topic-000", -1)
    members = [
        {
            "memberId": f"consumer-orders-{number}-6c1d2f4e-3b5a-4d8e-9f70-1a2b3c4d5e6f",
            "groupInstanceId": None,
            "clientId": f"consumer-orders-{number}",
            "clientHost": f"/10.0.0.{number}",
            "rebalanceTimeout": 300_000,
            "sessionTimeout": 45_000,
            "subscription": subscription,
            "assignment": struct.pack(">hih9siii", 0, 1, 9, b"topic-000", 1, number, -1),
        }
        for number in range(_MEMBERS_PER_GROUP)
    ]
    return {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": "range",
        "leader": members[0]["memberId"],
        "currentStateTimestamp": at_ms,
        "members": members,
    }


def _micro_batches(log: PlainCommits, next_offsets: dict[int, int]) -> Iterator[pa.Table]:
    """Cut a log into micro-batches; record offsets continue those of earlier logs."""
    logs = dict(log.logs())
    parts = -(-log.count // _MOST_COMMITS)
    starts = {p: next_offsets.get(p, 0) for p in logs}
    for part in range(parts):
        written = []
        for p, batches in logs.items():
            end = log.next_offset(p)
            start, stop = end * part // parts, end * (part + 1) // parts
            written.append(Written(p, batches, start, stop, end))
        rows = micro_batch(written)
        shift = pa.array(per_row(rows, starts))
        for name in ("record_offset", "from_offset", "high_watermark"):
            index = rows.schema.get_field_index(name)
            rows = rows.set_column(index, rows.schema.field(name), pc.add(rows[name], shift))
        yield rows
    next_offsets.update({p: starts[p] + log.next_offset(p) for p in logs})


def _remember(expected: np.ndarray[tuple[int], np.dtype[np.int64]], rows: pa.Table) -> None:
    commits = rows.filter(pc.is_valid(rows["committed_offset"])).sort_by("record_offset")
    expected[_keys(commits)] = commits["committed_offset"].to_numpy()


def _keys(rows: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    groups = pc.cast(pc.utf8_slice_codeunits(rows["group_id"], len("group-")), pa.int64())
    keys: np.ndarray[tuple[int], np.dtype[np.int64]] = (
        groups.to_numpy() * PARTITIONS_PER_GROUP + rows["partition"].to_numpy()
    )
    return keys


def _write(rows: pa.Table, file: Path) -> None:
    with pq.ParquetWriter(file, PACKED_ROW_SCHEMA) as writer:
        for batch in rows.combine_chunks().to_batches(_PACKED_ROWS):
            writer.write_batch(pack(batch))
