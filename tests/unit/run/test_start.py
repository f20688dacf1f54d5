"""Before a query starts: unread offsets."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

from streaming.run.start import _unread
from streaming.tables.topic_progress import Progress


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
