"""How far rebuilt tables reach: to their moment."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.lag.group_lag import tables_known_until
from streaming.tables.base_maintenance import maintain_bases
from streaming.tables.past import Past
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOG_OFFSETS
from tests.support.logs.log_rows import LOG_PARTITION
from tests.support.tables.every_table import apply_next, create
from tests.support.tables.tables_folder import start_apply, write_rows


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_markers_at_the_end_of_the_log_do_not_hide_it(tmp_path: Path) -> None:
    """They are in no history, so they look like lag, however old they are."""
    tables = str(tmp_path / "tables")
    create(tables)
    apply = start_apply(tables)
    apply_next(apply, now_ms())
    maintain_bases(apply.writer.epoch, timedelta(days=7), now=datetime.now(timezone.utc))
    apply_next(apply, now_ms())
    reader = TableReader(tables)
    moment, end = reader.written_at, reader.load_states[LOG_PARTITION].next_offset + 1
    apply_next(apply, now_ms())
    write_rows(
        tables,
        LOG_OFFSETS.name,
        [
            {"topic": OFFSETS_TOPIC, "partition": LOG_PARTITION, "state": "present"}
            | {"topic_id": "T", "sampled_at": at, "day": at.date(), "log_start_offset": 0}
            | {"log_end_offset": end, "last_stable_offset": end}
            for at in (moment - timedelta(minutes=minutes) for minutes in (350, 5, 1, 0))
        ],
    )
    rebuilt = Past(TableReader(tables), since=moment, group_ids=["g"]).at(moment)
    assert rebuilt.rebuilt_from is not None
    (known_until,) = tables_known_until(rebuilt)["known_until"].to_pylist()
    assert moment - known_until < timedelta(milliseconds=1)
