"""The tool `who_moved_offsets`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from coordinator_state.insight.group_events import EventName
from coordinator_state.replay.groups import EXTERNAL
from streaming.agents.answer import (
    Answer,
    At,
    ClusterName,
    Event,
    GroupId,
    Limit,
    Part,
    RecordId,
    Text,
    Time,
    Within,
)
from streaming.agents.clusters import Clusters
from streaming.views.event_summary import event_summary
from streaming.views.text import from_printable

_MOVES: Final = (
    *(EventName.OFFSET_REWIND, EventName.OFFSET_RESET, EventName.OFFSET_DELETED),
    *(EventName.OFFSET_EXPIRED, EventName.GROUP_DELETED),
)
_MOST_EXAMPLES: Final = 3


class OffsetMove(Part):
    """One committed offset that moved."""

    topic: Text
    partition: int
    offset_before: int | None
    """The committed offset before."""
    offset_after: int | None
    """The committed offset after; null if it was deleted or expired."""
    at: Time | None
    record_id: RecordId | None
    """The commit or the tombstone that moved it. External groups have no records."""
    client_id: Text | None
    """The client that the partition was assigned to; null if Kafka does not record one."""
    client_host: Text | None
    member_id: Text | None
    producer_id: int | None
    """The producer, if it was a commit in a transaction."""


class OffsetMoves(Event):
    """Equal moves of one group that follow each other."""

    examples: list[OffsetMove]
    """Up to three of the moves, the furthest first."""


class FoundMoves(Answer):
    """Moves of committed offsets other than progress: rewinds first, newest first."""

    since: Time
    moves: list[OffsetMoves]
    more: int
    """The number of moves that are not in the list."""


def who_moved_offsets(
    clusters: Clusters,
    group: GroupId = "",
    topic: Annotated[str, Field(description="The topic. Empty for all topics.")] = "",
    within: Within = "1h",
    limit: Limit = 20,
    at: At = "",
    cluster: ClusterName = "",
) -> FoundMoves:
    """Find who moved committed offsets, from where to where, and when.

    Finds rewinds, resets, deletions and expiries of offsets, and deletions of groups, also of
    groups that do not exist any more. `who` is the member that held the partition, or says why
    Kafka does not record the client. Commits that move an offset forward are not in the list.
    """
    opened = clusters.opened(cluster, at)
    since = opened.begin(within)
    summary = event_summary(
        opened.snapshot.reader,
        group=from_printable(group) or None,
        topic=from_printable(topic) or None,
        events=[name.value for name in _MOVES],
        since=since,
        until=opened.snapshot.at,
    )
    rows = summary.rows
    return FoundMoves(
        **opened.fields,
        since=since,
        moves=[OffsetMoves.of(folded, examples=_examples(folded.rows)) for folded in rows[:limit]],
        more=summary.more + sum(folded.count for folded in rows[limit:]),
    )


def _examples(rows: Sequence[Mapping[str, Any]]) -> list[OffsetMove]:
    moved = sorted((row for row in rows if row["topic"] is not None), key=_distance, reverse=True)
    return [
        OffsetMove(
            **row,
            at=row["record_timestamp"],
            record_id=None
            if row["group_type"] == EXTERNAL
            else RecordId.of((row["log_partition"], row["record_offset"])),
        )
        for row in moved[:_MOST_EXAMPLES]
    ]


def _distance(row: Mapping[str, Any]) -> int:
    return abs((row["offset_before"] or 0) - (row["offset_after"] or 0))
