"""`python -m bench.merge`: how long a MERGE into a table of keys takes, and the bytes it writes.

The keys belong to 10,000 groups. "whole table" is the way of small tables, and of every table
before parts of large ones were replaced.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import DeltaTable

from streaming.tables import replacing
from streaming.tables.creation import create_tables
from streaming.tables.schemas import GROUP_OFFSETS
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import WriterEpoch
from streaming.views.output import output_of

_Keys = npt.NDArray[np.int64]

_GROUPS = 10_000
_KEYS = (100_000, 1_000_000)
_FIRST_MS = 1_790_000_000_000
_WARM_UP = 17
"""After this number, one MERGE has written the table to many files (`replacing._TRIAL`)."""


class _Way(NamedTuple):
    name: str
    change_data_feed: bool
    patch: Callable[[], AbstractContextManager[object]]


_WAYS = (
    _Way("whole table", False, lambda: mock.patch.object(replacing, "SMALL_BYTES", 1 << 60)),
    _Way("parts of a large table", False, nullcontext),
    _Way("delta-rs's MERGE, change data feed", True, nullcontext),
)


class _Merged(NamedTuple):
    seconds: float
    written_bytes: int
    table_bytes: int


def _of_groups(groups: _Keys, keys: int) -> _Keys:
    return (groups[:, None] + np.arange(0, keys, _GROUPS)[None, :]).ravel()


def _same_groups(_choose: np.random.Generator, keys: int) -> _Keys:
    return _of_groups(np.arange(0, _GROUPS, 100), keys)


def _other_groups(choose: np.random.Generator, keys: int) -> _Keys:
    return _of_groups(choose.choice(_GROUPS, _GROUPS // 100, replace=False), keys)


def _random_rows(choose: np.random.Generator, keys: int) -> _Keys:
    return choose.choice(keys, 1_000, replace=False)


_SOURCES = {
    "all keys of the same 1 % of the groups": _same_groups,
    "all keys of another 1 % each time": _other_groups,
    "1,000 random keys": _random_rows,
}


@click.command()
@click.option("--runs", default=7, show_default=True, help="Number of MERGEs of each kind.")
def bench(runs: int) -> None:
    """Merge rows into `group_offsets`."""
    rows = []
    for keys in _KEYS:
        for source, choose in _SOURCES.items():
            for way in _WAYS:
                merges = _merges(way, choose, keys, runs)
                rows.append(
                    {
                        "keys": keys,
                        "rows": source,
                        "way": way.name,
                        "p50_s": round(statistics.median(merge.seconds for merge in merges), 3),
                        "mb": round(
                            statistics.mean(merge.written_bytes for merge in merges) / 1e6, 2
                        ),
                        "percent": round(
                            100 * statistics.mean(o.written_bytes / o.table_bytes for o in merges),
                            1,
                        ),
                    }
                )
    output_of("text").rows(rows, ["keys", "rows", "way", "p50_s", "mb", "percent"])


def _merges(
    way: _Way, choose: Callable[[np.random.Generator, int], _Keys], keys: int, runs: int
) -> list[_Merged]:
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as tables, way.patch():
        create_tables(tables, {}, change_data_feed=way.change_data_feed)
        writer = Writer.of(WriterEpoch.take(tables, "bench", GROUP_OFFSETS))
        writer.append(GROUP_OFFSETS, _rows(random.permutation(keys), 0))
        merges = range(1, 1 + _WARM_UP + runs)
        merged = [_merge(writer, _rows(choose(random, keys), number)) for number in merges]
        return merged[_WARM_UP:]


def _merge(writer: Writer, source: pa.Table) -> _Merged:
    began = time.perf_counter()
    version = writer.merge(GROUP_OFFSETS, source, guard="record_offset")
    seconds = time.perf_counter() - began
    path = GROUP_OFFSETS.path(writer.tables)
    entry = Path(path, "_delta_log", f"{version:020}.json").read_text()
    actions = [json.loads(line) for line in entry.splitlines()]
    files = pa.table(DeltaTable(path).get_add_actions(flatten=True))["size_bytes"].to_pylist()
    return _Merged(
        seconds=seconds,
        written_bytes=sum(action["add"]["size"] for action in actions if "add" in action),
        table_bytes=sum(files),
    )


def _rows(keys: _Keys, number: int) -> pa.Table:
    """Commits of the keys, at the second `number`."""
    random = np.random.default_rng(number)
    groups = keys % _GROUPS
    ids = np.array([hashlib.sha256(b"%d" % group).hexdigest()[:24] for group in range(_GROUPS)])
    times = _FIRST_MS + 1_000 * number + random.integers(0, 1_000, len(keys))
    columns = {
        "group_id": ids[groups],
        "topic": [f"topic-{topic:03d}" for topic in (groups % 200).tolist()],
        "partition": keys // _GROUPS,
        "log_partition": groups % 50,
        "committed_offset": random.integers(0, 1 << 40, len(keys)),
        "metadata": [""] * len(keys),
        "commit_timestamp": pa.array(times).cast(pa.timestamp("ms", tz="UTC")),
        "record_offset": number * (1 << 32) + np.arange(len(keys)),
    }
    schema = pa.schema([GROUP_OFFSETS.schema.field(name) for name in columns])
    return pa.table(columns).cast(schema)


if __name__ == "__main__":
    bench(prog_name="python -m bench.merge")
