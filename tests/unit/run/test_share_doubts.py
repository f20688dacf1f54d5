"""The records of `__share_group_state` that a reload counts as lost."""

from __future__ import annotations

import pytest

from streaming.reload.doubts import Doubt
from streaming.run.other_topics import without_redundant
from streaming.tables.topic_progress import Progress, TopicProgress


@pytest.mark.parametrize(
    ("kept_below", "log_start", "is_lost"),
    [
        # Deleted before they were read: later snapshots have their state.
        (7, 9, False),
        # Read, and then the log was truncated, or it is another one.
        (4, 0, True),
        (0, 3, True),
    ],
)
def test_only_records_that_were_read_are_lost(
    kept_below: int, log_start: int, is_lost: bool
) -> None:
    rows = {0: Progress(next_offset=7)}
    progress = TopicProgress(topic="__share_group_state", topic_id="id", rows=rows)
    doubt = Doubt(reason="r", kept_below=kept_below, lost="some records")
    assert bool(without_redundant({0: doubt}, {0: log_start}, progress)[0].lost) is is_lost
