"""One sentence about an event, or about equal events that follow each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import count_text, time_text
from coordinator_state.insight.member_labels import MemberKey
from coordinator_state.insight.partition_text import partitions_text, tasks_text, topics_text
from coordinator_state.replay.groups import CLASSIC, EXTERNAL, STREAMS

Row = Mapping[str, Any]
"""A row of `group_events`."""
Labels = Mapping[MemberKey, str]

NOT_RECORDED: Final = "not recorded by Kafka"
OF_MEMBERS: Final = (
    *(EventName.REBALANCE, EventName.MEMBER_JOINED, EventName.MEMBER_LEFT),
    EventName.ASSIGNMENT_CHANGED,
)
"""The events of one restart of a consumer."""
_COMES_AND_GOES: Final = (EventName.MEMBER_JOINED, EventName.MEMBER_LEFT)
_NOUNS: Final = {
    EventName.REBALANCE: "rebalance",
    EventName.ASSIGNMENT_CHANGED: "assignment change",
    EventName.MEMBER_JOINED: "join",
    EventName.MEMBER_LEFT: "leave",
}
_VERBS: Final = {
    EventName.OFFSET_REWIND.value: "set back",
    EventName.OFFSET_RESET.value: "reset",
    EventName.OFFSET_DELETED.value: "deleted",
    EventName.OFFSET_EXPIRED.value: "expired",
}


def event_text(rows: Sequence[Row], labels: Labels) -> str:
    """Describe events of one group and kind, in log order; those of `OF_MEMBERS` are one kind.

    `labels` has the label of each member that the rows name.
    """
    last = rows[-1]
    match last["event"]:
        case EventName.OFFSET_REWIND | EventName.OFFSET_RESET:
            return f"{_moved(rows)}{_by(rows, labels)}"
        case EventName.OFFSET_DELETED:
            return f"{_removed(rows)}{_by(rows, labels)}"
        case EventName.OFFSET_EXPIRED:
            return _removed(rows)
        case EventName.TRANSACTION_HUNG:
            return _hung(rows)
        case event if event in OF_MEMBERS:
            return _of_members(rows, labels)
        case EventName.GROUP_EMPTIED:
            text = "the last member left"
        case EventName.GROUP_CREATED:
            text = f"{last['group_type'] or ''} group created".lstrip()
        case event:
            text = event.replace("_", " ")
    return f"{text}{_times(rows)}"


def who_text(row: Row, labels: Labels) -> str | None:
    """The member behind an event, or the reason that it is unknown; None for events of the group.

    Brokers refuse a commit without a member id if the group has members, except in a transaction.
    They do not check the assignment of the member that commits.
    """
    if row["member_id"] is not None:
        label = labels[row["group_id"], row["member_id"]]
        return f"{label} at {row['client_host']}" if row["client_host"] else label
    if row["event"] == EventName.OFFSET_DELETED:
        return f"{NOT_RECORDED}: an admin tool, or the topic or group was deleted"
    if row["event"] == EventName.OFFSET_EXPIRED:
        return "the group coordinator, after the retention of offsets"
    if row["event"] not in (EventName.OFFSET_REWIND, EventName.OFFSET_RESET):
        return None
    if row["group_type"] == EXTERNAL:
        return f"{NOT_RECORDED}: the checkpoint went back, or was created again"
    if row["producer_id"] is not None:
        return f"{NOT_RECORDED}: a transaction of producer {row['producer_id']}"
    if row["group_type"] == STREAMS and row["member_count"]:
        return f"{NOT_RECORDED}: tasks of a streams group do not name partitions"
    if row["member_count"]:
        return f"{NOT_RECORDED}: no member held the partition, so another member of the group"
    return f"{NOT_RECORDED}: no member held the partition, so an admin tool or assign()"


def span_of(rows: Iterable[Row]) -> tuple[datetime | None, datetime | None]:
    """The earliest and the latest record timestamp, None if no row has one."""
    known = [row["record_timestamp"] for row in rows if row["record_timestamp"] is not None]
    return (min(known), max(known)) if known else (None, None)


def _moved(rows: Sequence[Row]) -> str:
    far = max(rows, key=lambda row: abs(row["offset_before"] - row["offset_after"]))
    offsets = f"from {far['offset_before']:,} to {far['offset_after']:,}"
    text = f"{_place(rows)} {_VERBS[far['event']]}"
    if len(rows) == 1:
        return f"{text} {offsets}"
    times = "" if len(rows) == len(_partitions(rows)) else _times(rows)
    return f"{text}{times}, furthest {_partition(far)} {offsets}"


def _removed(rows: Sequence[Row]) -> str:
    verb = _VERBS[rows[0]["event"]]
    if len(rows) == 1:
        return f"offset {rows[0]['offset_before']:,} of {_place(rows)} {verb}"
    return f"{count_text(len(rows), 'offset')} {verb} of {_place(rows)}"


def _hung(rows: Sequence[Row]) -> str:
    """A marker ends all offsets of a transaction at once: then the event names no partition."""
    longest = time_text(max(row["duration_ms"] or 0 for row in rows))
    producers = {row["producer_id"] for row in rows}
    of = f"transactions of {len(producers)} producers"
    if len(producers) == 1:
        of = f"a transaction of producer {producers.pop()}"
    offsets = "offsets" if len(rows) == 1 else count_text(len(rows), "offset")
    place = "" if rows[0]["topic"] is None else f" of {_place(rows)}"
    outcomes = " or ".join(sorted({row["outcome"] or "ended" for row in rows}))
    return f"{offsets}{place} pending for {longest} in {of}, then {outcomes}"


def _of_members(rows: Sequence[Row], labels: Labels) -> str:
    row = rows[-1]
    if len(rows) > 1:
        counts = Counter(row["event"] for row in rows)
        parts = [count_text(counts[name], noun) for name, noun in _NOUNS.items() if counts[name]]
        # Members that come or go change the assignments of the others.
        moving = [row for row in rows if row["event"] in _COMES_AND_GOES]
        who = _who(moving or [row for row in rows if row["member_id"] is not None], labels)
        return f"{', '.join(parts)}{f' of {who}' if who else ''}{_within(rows)}"
    if row["event"] == EventName.REBALANCE:
        epoch = "generation" if row["group_type"] == CLASSIC else "group epoch"
        return f"rebalance to {epoch} {row['epoch_after']:,}"
    who = who_text(row, labels) or "a member"
    if row["event"] == EventName.ASSIGNMENT_CHANGED:
        before, after = (_assignment(row, side) for side in ("before", "after"))
        return f"assignment of {who} changed from {before} to {after}"
    return f"{who} {'joined' if row['event'] == EventName.MEMBER_JOINED else 'left'}"


def _assignment(row: Row, side: str) -> str:
    if row["tasks_before"] or row["tasks_after"]:
        return tasks_text(row[f"tasks_{side}"]) or "none"
    return partitions_text(row[f"assignment_{side}"])


def _by(rows: Sequence[Row], labels: Labels) -> str:
    who = _who(rows, labels) or NOT_RECORDED
    return f"; client {who}" if who.startswith(NOT_RECORDED) else f" by {who}"


def _who(rows: Sequence[Row], labels: Labels) -> str:
    """The member or the reason that all rows share, or else the client ids of their members."""
    known = {who_text(row, labels) for row in rows}
    if len(known) == 1:
        return known.pop() or ""
    members = [row for row in rows if row["member_id"] is not None]
    return topics_text(row["client_id"] or "a client without an id" for row in members)


def _place(rows: Sequence[Row]) -> str:
    """A partition, or the number of partitions of a topic."""
    partitions = _partitions(rows)
    if len(partitions) == 1:
        return _partition(rows[0])
    return f"{count_text(len(partitions), 'partition')} of {rows[0]['topic']}"


def _partitions(rows: Iterable[Row]) -> set[int]:
    return {row["partition"] for row in rows}


def _partition(row: Row) -> str:
    return f"{row['topic']}:{row['partition']}"


def _times(rows: Sequence[Row]) -> str:
    return "" if len(rows) == 1 else f" {len(rows):,} times{_within(rows)}"


def _within(rows: Sequence[Row]) -> str:
    """How long the events took; nothing if they happened with one record."""
    first, last = span_of(rows)
    if first is None or last is None or first == last:
        return ""
    return f" in {time_text((last - first).total_seconds() * 1000)}"
