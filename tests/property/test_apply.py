"""The tables against the reference loader: random logs, cuts, crashes between writes, redelivery.

One micro-batch carries many log partitions, each with a random log of its own.
`COORDINATOR_STATE_LOGS` sets how many per semantics.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from coordinator_state.kernel import decode_record_set
from coordinator_state.loader import ReferenceLoader
from coordinator_state.log_rows import LOG_ROW_SCHEMA
from coordinator_state.offsets import Semantics
from coordinator_state.record_batch import read_record_batches
from streaming.apply.group_events import EVENT_SCHEMA
from streaming.apply.micro_batch import MicroBatchApply
from streaming.tables import folder as tables_folder
from streaming.tables.load_progress import LoadProgress
from streaming.tables.reader import TableReader
from streaming.tables.schemas import APPEND_TABLES, TABLES
from tests.loader_tables import Row, differences, differing, in_ms
from tests.logs import Event, segment
from tests.plan_tables import RETENTION_MS, PlanTables
from tests.random_logs import logs

LOGS_PER_RUN = 25
RUNS = max(1, int(os.environ.get("COORDINATOR_STATE_LOGS", "250")) // LOGS_PER_RUN)
MICRO_BATCHES = 3


class Crash(Exception):
    """Stands for a killed process: nothing after it happens."""


def _start(tables: str, semantics: Semantics, history: str, fault: str = "") -> MicroBatchApply:
    """A new process: everything it knows, it reads from the tables."""
    identity: dict[str, Any] = {"cluster_id": "c", "topic_id": "t", "semantics": semantics}
    progress = tables_folder.existing_progress(tables, **identity)

    def crash(table: str) -> None:
        if table == fault:
            raise Crash(table)

    return MicroBatchApply(
        tables=tables,
        semantics=semantics,
        history=history,
        progress=progress or LoadProgress.nothing(**identity),
        offsets_retention_ms=RETENTION_MS,
        fault=crash,
    )


def _micro_batch(
    segments: dict[int, tuple[bytes, int]], ranges: dict[int, tuple[int, int]], history: str
) -> pa.Table:
    batches = []
    for log_partition, (start, end) in ranges.items():
        decoded = decode_record_set(
            segments[log_partition][0],
            log_partition=log_partition,
            from_offset=start,
            to_offset=end,
            compact=history != "all",
        )
        progress = {
            "row_kind": "progress",
            "log_partition": log_partition,
            "record_offset": end,
            "from_offset": start,
            "high_watermark": segments[log_partition][1],
            "log_leader_epoch": 0,
            "records_read": decoded.records_read,
            "records_superseded": decoded.records_superseded,
            "bytes_read": decoded.bytes_read,
        }
        batches += [
            decoded.rows,
            pa.RecordBatch.from_pylist([progress], schema=LOG_ROW_SCHEMA),
        ]
    return pa.Table.from_batches(batches)


@pytest.mark.timeout(600 + 60 * RUNS)
@pytest.mark.parametrize("semantics", list(Semantics))
def test_tables_equal_the_loader(tmp_path: Path, semantics: Semantics) -> None:
    runs = iter(range(1_000_000))

    # Shrinking would write tables for minutes; `test_apply_plan.py` shrinks the same rules. The
    # first example of hypothesis is empty logs.
    @settings(max_examples=RUNS + 1, phases=[Phase.generate], database=None)
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        tables = str(tmp_path / f"run-{next(runs)}" / "tables")
        drawn = {n: data.draw(logs(f"{n}-", max_size=40)) for n in range(LOGS_PER_RUN)}
        choose = random.Random(data.draw(st.integers(0, 1 << 32)))
        _check(tables, semantics, drawn, choose)

    check()


def _check(
    tables: str,
    semantics: Semantics,
    drawn: dict[int, list[Event]],
    choose: random.Random,
) -> None:
    history = choose.choice(["sampled", "all"])
    segments = {p: segment(events) for p, events in drawn.items()}
    apply = _start(tables, semantics, history)
    # With the feed, rows are merged in another way.
    tables_folder.create(
        tables,
        apply.progress,
        log_partitions=len(drawn),
        change_data_feed=choose.random() < 0.2,
    )
    cuts = {
        p: [0, *sorted(choose.randint(0, end) for _ in range(MICRO_BATCHES - 1)), end]
        for p, (_, end) in segments.items()
    }
    query = "query"
    for number in range(MICRO_BATCHES):
        ranges = {p: (cut[number], cut[number + 1]) for p, cut in cuts.items()}
        batch = _micro_batch(segments, ranges, history)
        if choose.random() < 0.5:
            fault = choose.choice([table.name for table in TABLES])
            with pytest.raises(Crash):
                _start(tables, semantics, history, fault).apply(batch, number, query)
            apply = _start(tables, semantics, history)
            if choose.random() < 0.3:
                for table in APPEND_TABLES:
                    DeltaTable(table.path(tables)).optimize.compact()
            if choose.random() < 0.3:
                query = f"without the checkpoint {number}"
        apply.apply(batch, number, query)
        if number == MICRO_BATCHES - 1 or choose.random() < 0.2:
            apply = _start(tables, semantics, history)
            apply.apply(batch, number, query)
    loaders = {}
    for p, (buffer, _) in segments.items():
        loaders[p] = ReferenceLoader(semantics)
        loaders[p].load(read_record_batches(buffer))
    assert differences(tables, loaders) == []
    lacking = next((p for p, loader in loaders.items() if loader.offsets), None)
    if lacking is not None:
        assert differences(tables, {**loaders, lacking: ReferenceLoader(semantics)})
    events = TableReader(tables).read("group_events").drop_columns("day").to_pylist()
    if history == "all":
        told = [in_ms(row, tuple(EVENT_SCHEMA.names)) for row in events]
        assert differing("group_events", told, _events(segments, semantics)) == []


def _events(segments: dict[int, tuple[bytes, int]], semantics: Semantics) -> list[Row]:
    """What one micro-batch of each log tells."""
    found = []
    for p, (buffer, end) in segments.items():
        decoded = decode_record_set(buffer, log_partition=p, from_offset=0, to_offset=end)
        whole = PlanTables(semantics)
        whole.apply(pa.Table.from_batches([decoded.rows]), end, 0)
        found += whole.events
    return found
