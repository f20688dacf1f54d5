"""The rows of an unfinished reload are not applied; `property/test_apply.py` has the rows."""

from __future__ import annotations

from datetime import datetime, timezone

from coordinator_state.replay.offsets import Semantics
from streaming.engine.driver.reloading import Reloading
from streaming.tables.load_progress import LoadProgress
from streaming.tables.topic_progress import Progress
from tests.support.logs.log_rows import commit, progress_row, table_of

NOW = datetime(2026, 11, 24, tzinfo=timezone.utc)


def test_a_reload_is_held_until_its_end_and_has_one_report() -> None:
    reloading = Reloading(resolution=None)
    progress = LoadProgress(cluster_id="c", topic_id="t", semantics=Semantics.COORDINATOR)
    progress.rows[7] = Progress(next_offset=5, current_at=NOW, reload_reason="truncated")
    first, second = (
        table_of(
            [
                *(commit(at, at, log_partition=7) for at in range(start, start + 2)),
                progress_row(start, start + 2, log_partition=7, high_watermark=4, bytes_read=10),
            ]
        )
        for start in (0, 2)
    )

    held = reloading.ready_rows(first, progress)
    assert (held.rows.num_rows, held.reports) == (0, [])
    assert progress.rows[7].high_watermark == 4

    ready = reloading.ready_rows(second, progress)
    assert ready.rows["record_offset"].to_pylist() == [0, 1, 2, 3]
    assert (ready.replaced, ready.from_offsets) == ({7: 5}, {7: 0})
    (report,) = ready.reports
    assert (report["records_read"], report["bytes_read"], report["record_offset"]) == (4, 20, 4)
