"""The options of the source of a query, and the record offsets that it has to read."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.run.other_topics import OtherTopics
from streaming.run.session import EngineName
from streaming.run.settings import RunSettings
from streaming.run.source_options import source_options
from streaming.run.start import _unread
from streaming.source.options import SourceOptions
from streaming.tables.topic_progress import Progress


@pytest.mark.parametrize(("engine", "planning_tasks"), [("driver", 1), ("spark", 3)])
def test_the_tasks_of_the_engine_spark_share_the_rows(
    engine: EngineName, planning_tasks: int
) -> None:
    settings = RunSettings(bootstrap_servers="localhost:9092", tables="tables")
    start: Any = SimpleNamespace(
        progress=SimpleNamespace(rows={}), log_partitions={0, 7}, others=OtherTopics()
    )
    options = SourceOptions.read(source_options(settings, start, 3, engine))
    assert (options.tasks, options.planning_tasks) == (3, planning_tasks)
    assert options.log_partitions == (0, 7)


def test_unread_offsets_are_those_from_the_next_offsets_or_the_log_starts() -> None:
    now = datetime.now(timezone.utc)
    rows = {
        0: Progress(next_offset=70, current_at=now),
        1: Progress(next_offset=70, current_at=now, reload_reason="requested"),
        # The log was truncated: its end is before the next offset.
        2: Progress(next_offset=70, current_at=now),
        3: Progress(),
    }
    progress: Any = SimpleNamespace(rows=rows)
    log_ends: Any = SimpleNamespace(
        log_starts=dict.fromkeys(range(5), 10),
        high_watermarks={0: 100, 1: 100, 2: 60, 3: 11, 4: 12},
    )
    assert _unread(progress, log_ends) == 30 + 90 + 0 + 1 + 2
