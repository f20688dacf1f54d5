"""Rows of `log_offsets`, as a reader has them."""

from __future__ import annotations

from datetime import datetime
from typing import Any


def sample(
    at: datetime, end: int | None, topic: str = "t", partition: int = 0, **fields: Any
) -> dict[str, Any]:
    """A sample of a log that begins at 0; without an end the topic does not exist any more."""
    is_there = end is not None
    return {
        **{"topic": topic, "partition": partition, "sampled_at": at, "day": at.date()},
        **{"state": "present" if is_there else "gone", "topic_id": "T"},
        **{"log_start_offset": 0 if is_there else None},
        **{"log_end_offset": end, "last_stable_offset": end},
        **fields,
    }
