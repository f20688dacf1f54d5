"""Rows of samples, commits and members for `write_rows`, which adds what follows from them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any


def sample(
    at: datetime, end: int | None, topic: str = "t", partition: int = 0, **fields: Any
) -> dict[str, Any]:
    """A sample of a log that begins at 0; without an end the topic does not exist any more."""
    gone = {"state": "gone", "topic_id": None} if end is None else {}
    return {
        **{"topic": topic, "partition": partition, "sampled_at": at, "log_end_offset": end},
        **gone,
        **fields,
    }


def offset_row(
    group_id: str, offset: int, at: datetime, topic: str = "t", partition: int = 0, **fields: Any
) -> dict[str, Any]:
    """A committed offset, as `group_offsets` has it."""
    return {
        **{"group_id": group_id, "topic": topic, "partition": partition},
        **{"committed_offset": offset, "commit_timestamp": at, **fields},
    }


def member_row(
    group_id: str, member_id: str, topic: str, partitions: Iterable[int], **fields: Any
) -> dict[str, Any]:
    """A member to which partitions of a topic are assigned."""
    assignment = [{"topic": topic, "topic_id": None, "partition": number} for number in partitions]
    return {"group_id": group_id, "member_id": member_id, "assignment": assignment, **fields}


def history_of(commits: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of `offset_commits`: commits as records one after the other, at their times."""
    return [{**commit, "record_offset": number} for number, commit in enumerate(commits)]
