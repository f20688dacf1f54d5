"""`python -m bench.merge`: how long a MERGE into a table of keys takes, in both ways there are."""

from __future__ import annotations

import tempfile
import time

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streaming.tables.creation import create_tables
from streaming.tables.schemas import GROUP_OFFSETS
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import WriterEpoch
from streaming.views.output import output_of

_ROWS = 1_000
_KEYS = (100_000, 1_000_000)
_WAYS = {"merged in Arrow and replaced": False, "delta-rs's MERGE, with change data feed": True}


@click.command()
@click.option("--runs", default=5, show_default=True, help="Of which the fastest is told.")
def bench(runs: int) -> None:
    """Merge 1,000 rows into `group_offsets`."""
    rows = []
    for way, change_data_feed in _WAYS.items():
        for keys in _KEYS:
            seconds = min(_seconds(keys, runs, change_data_feed=change_data_feed))
            rows.append({"way": way, "keys": keys, "seconds": round(seconds, 3)})
    output_of("text").rows(rows, ["way", "keys", "seconds"])


def _seconds(keys: int, runs: int, *, change_data_feed: bool) -> list[float]:
    choose = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as tables:
        create_tables(tables, {}, change_data_feed=change_data_feed)
        writer = Writer.of(WriterEpoch.take(tables, "bench", GROUP_OFFSETS))
        writer.append(GROUP_OFFSETS, _rows(np.arange(keys), 0))
        found = []
        for run in range(runs):
            source = _rows(choose.choice(keys, _ROWS, replace=False), run + 1)
            began = time.perf_counter()
            writer.merge(GROUP_OFFSETS, source, guard="record_offset")
            found.append(time.perf_counter() - began)
        return found


def _rows(keys: npt.NDArray[np.int64], record_offset: int) -> pa.Table:
    times = np.full(len(keys), record_offset, dtype="datetime64[us]")
    columns = {
        "group_id": [f"group-{key // 10:06d}" for key in keys.tolist()],
        "topic": [f"topic-{key // 10 % 200:03d}" for key in keys.tolist()],
        "partition": keys % 10,
        "log_partition": keys // 10 % 50,
        "committed_offset": np.full(len(keys), record_offset),
        "metadata": [""] * len(keys),
        "commit_timestamp": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
        "record_offset": np.full(len(keys), record_offset),
    }
    schema = pa.schema([GROUP_OFFSETS.schema.field(name) for name in columns])
    return pa.table(columns).cast(schema)


if __name__ == "__main__":
    bench(prog_name="python -m bench.merge")
