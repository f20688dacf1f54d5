"""The rows that a micro-batch applies: not those applied before, nor of an unfinished reload."""

from __future__ import annotations

from datetime import datetime, timezone

import pyarrow as pa

from coordinator_state.apply.columns import is_below
from coordinator_state.replay.offsets import Semantics
from streaming.engine.driver.reloading import ReadyRows, Reloading
from streaming.tables.load_progress import LoadProgress
from streaming.tables.topic_progress import Progress
from tests.support.logs.log_rows import commit, places, progress_row, table_of

NOW = datetime(2026, 11, 24, tzinfo=timezone.utc)


def progress_of(**rows: Progress) -> LoadProgress:
    """Progress rows by `p<log partition>`."""
    progress = LoadProgress(cluster_id="c", topic_id="t", semantics=Semantics.COORDINATOR)
    progress.rows.update({int(name[1:]): row for name, row in rows.items()})
    return progress


def read(
    reloading: Reloading,
    progress: LoadProgress,
    log_partition: int,
    from_offset: int,
    to_offset: int,
    *,
    high_watermark: int | None = None,
) -> ReadyRows:
    """Take a micro-batch of one commit for each record offset."""
    rows = [commit(at, at, log_partition=log_partition) for at in range(from_offset, to_offset)]
    report = progress_row(
        from_offset,
        to_offset,
        log_partition=log_partition,
        high_watermark=high_watermark,
        bytes_read=10,
    )
    return reloading.ready_rows(table_of([*rows, report]), progress)


def record_offsets(ready: ReadyRows) -> list[int]:
    rows = ready.rows.to_pylist()
    return [row["record_offset"] for row in rows if row["row_kind"] != "progress"]


def test_rows_that_were_applied_are_left_out() -> None:
    progress = progress_of(p7=Progress(next_offset=5, current_at=NOW))

    ready = read(Reloading(resolution=None), progress, 7, 3, 8)

    assert record_offsets(ready) == [5, 6, 7]
    assert (ready.replaced, ready.from_offsets) == ({}, {7: 3})


def test_a_reload_is_held_until_its_end_and_has_one_report() -> None:
    reloading = Reloading(resolution=None)
    progress = progress_of(p7=Progress(next_offset=5, current_at=NOW, reload_reason="truncated"))

    first = read(reloading, progress, 7, 0, 2, high_watermark=4)

    assert (record_offsets(first), first.reports) == ([], [])
    assert progress.rows[7].high_watermark == 4

    second = read(reloading, progress, 7, 2, 4)

    assert record_offsets(second) == [0, 1, 2, 3]
    assert (second.replaced, second.from_offsets) == ({7: 5}, {7: 0})
    (report,) = second.reports
    assert (report["records_read"], report["bytes_read"], report["record_offset"]) == (4, 20, 4)


def test_each_row_has_the_bound_of_its_own_log_partition() -> None:
    rows = places((0, 5), (7, 5), (3, 0), (0, 4), (7, 2**40), (49, 0))
    rows = pa.concat_tables([rows, rows.slice(1)])
    expected = [False, True, False, True, False, False]
    bounds = {0: 5, 7: 6, 49: 0, 1: 100}
    assert is_below(rows, "record_offset", bounds).to_pylist() == expected + expected[1:]
    assert not any(is_below(rows, "record_offset", {}).to_pylist())
    assert is_below(rows.slice(0, 0), "record_offset", bounds).to_pylist() == []
