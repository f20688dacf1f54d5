"""One sentence about an event, or about equal events that follow each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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
_OF_OFFSET: Final = (EventName.OFFSET_REWIND, EventName.OFFSET_RESET)
_OF_MEMBER: Final = (EventName.MEMBER_JOINED, EventName.MEMBER_LEFT)


def event_text(rows: Sequence[Row], labels: Labels) -> str:
    """Describe events of one group and kind, in log order; joins and leaves are one kind.

    `labels` has the label of each member that the rows name.
    """
    event = rows[0]["event"]
    text = _TEXTS.get(event)
    if text is None:
        return _times(event.replace("_", " "), rows)
    return text(rows, labels)


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
    if row["event"] not in _OF_OFFSET:
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


def within_text(rows: Sequence[Row]) -> str:
    """How long the events took; nothing if they happened with one record."""
    first, last = span_of(rows)
    if first is None or last is None or first == last:
        return ""
    return f" in {time_text((last - first).total_seconds() * 1000)}"


def epochs_text(rebalances: Sequence[Row]) -> str:
    """The generations or group epochs of rebalances that follow each other."""
    first, last = rebalances[0], rebalances[-1]
    epoch = "generation" if last["group_type"] == CLASSIC else "group epoch"
    if first["epoch_before"] is None:
        return f"{epoch} {last['epoch_after']:,}"
    return f"{epoch} {first['epoch_before']:,} to {last['epoch_after']:,}"


def afterwards_text(row: Row) -> str:
    """The number of members after an event."""
    count = row["member_count"]
    return "" if count is None else f"; {count_text(count, 'member')} afterwards"


def _rewound(rows: Sequence[Row], labels: Labels) -> str:
    verb = "set back" if rows[0]["event"] == EventName.OFFSET_REWIND else "reset"
    far = max(rows, key=lambda row: abs(row["offset_before"] - row["offset_after"]))
    offsets = f"from {far['offset_before']:,} to {far['offset_after']:,}"
    partitions = _partitions(rows)
    if len(partitions) == 1:
        times = f"{verb}" if len(rows) == 1 else f"{_times(verb, rows)}, furthest"
        return f"{_partition(far)} {times} {offsets}{_by(rows, labels)}"
    times = verb if len(partitions) == len(rows) else _times(verb, rows)
    text = f"{count_text(len(partitions), 'partition')} of {_topics(rows)} {times}"
    return f"{text}, furthest {_partition(far)} {offsets}{_by(rows, labels)}"


def _deleted(rows: Sequence[Row], labels: Labels) -> str:
    verb = "deleted" if rows[0]["event"] == EventName.OFFSET_DELETED else "expired"
    by = _by(rows, labels) if verb == "deleted" else ""
    if len(rows) == 1:
        (row,) = rows
        return f"offset {row['offset_before']:,} of {_partition(row)} {verb}{by}"
    partitions = _partitions(rows)
    of = _partition(rows[0])
    if len(partitions) > 1:
        of = f"{count_text(len(partitions), 'partition')} of {_topics(rows)}"
    return f"{count_text(len(rows), 'offset')} {verb} of {of}{by}"


def _hung(rows: Sequence[Row], _labels: Labels) -> str:
    longest = time_text(max(row["duration_ms"] or 0 for row in rows))
    producers = sorted({row["producer_id"] for row in rows if row["producer_id"] is not None})
    names = ", ".join(map(str, producers[:3])) + (" and others" if len(producers) > 3 else "")
    of = f"transactions of {len(producers)} producers ({names})"
    if len(producers) == 1:
        of = f"a transaction of producer {names}"
    outcomes = Counter(row["outcome"] or "ended" for row in rows)
    ends = ", ".join(
        outcome if len(outcomes) == 1 else f"{count:,} {outcome}"
        for outcome, count in sorted(outcomes.items())
    )
    if len(rows) == 1:
        # A marker ends all offsets of the transaction at once: then the event names no partition.
        offsets = "offsets" if rows[0]["topic"] is None else f"offset of {_partition(rows[0])}"
        text = f"{offsets} pending for {longest}"
    else:
        text = f"{count_text(len(rows), 'offset')} of {_topics(rows)} pending for up to {longest}"
    return f"{text} in {of}, then {ends}"


def _rebalanced(rows: Sequence[Row], _labels: Labels) -> str:
    text = (
        "rebalance"
        if len(rows) == 1
        else f"{count_text(len(rows), 'rebalance')}{within_text(rows)}"
    )
    return f"{text}, {epochs_text(rows)}{afterwards_text(rows[-1])}"


def _joined_or_left(rows: Sequence[Row], labels: Labels) -> str:
    joined, left = ([row["member_id"] for row in rows if row["event"] == of] for of in _OF_MEMBER)
    members = {*joined, *left}
    last = rows[-1]
    within, after = within_text(rows), afterwards_text(last)
    if len(members) == 1:
        return f"{who_text(last, labels)} {_joins(len(joined), len(left))}{within}{after}"
    client, host = last["client_id"] or "a client without an id", f"at {last['client_host']}"
    if joined and left and not set(joined) & set(left):
        count = count_text(len(set(joined)), "member")
        return f"{client} {host}: {count} joined and {len(set(left)):,} left{within}{after}"
    if len(set(joined)) == len(joined) and len(set(left)) == len(left) and joined and left:
        # Members of classic groups get a new member id each time.
        joins = _joins(len(joined), len(left))
        return f"{client} {host} {joins}{within}, each time as a new member{after}"
    joins = _joins(len(joined), len(left), len(members))
    return f"{client} ({len(members):,} members) {host} {joins}{within}{after}"


def _joins(joined: int, left: int, members: int = 1) -> str:
    """Joins and leaves; members that each did it once need no number."""
    if joined == left:
        return f"joined and left{_number_of_times(joined, 1)}"
    if joined and left:
        return f"joined{_number_of_times(joined, 0)} and left{_number_of_times(left, 0)}"
    verb = "joined" if joined else "left"
    return f"{verb}{_number_of_times(joined or left, members)}"


def _assigned(rows: Sequence[Row], labels: Labels) -> str:
    members = {row["member_id"] for row in rows}
    last = rows[-1]
    who = who_text(last, labels) or "a member"
    before, after = (_assignment(last, side) for side in ("before", "after"))
    if len(rows) == 1:
        return f"assignment of {who} changed from {before} to {after}"
    text = count_text(len(rows), "assignment change")
    if len(members) == 1:
        return f"{text} of {who}{within_text(rows)}, the last from {before} to {after}"
    return f"{text} of {count_text(len(members), 'member')}{within_text(rows)}"


def _assignment(row: Row, side: str) -> str:
    if row["tasks_before"] or row["tasks_after"]:
        return tasks_text(row[f"tasks_{side}"]) or "none"
    return partitions_text(row[f"assignment_{side}"])


def _created(rows: Sequence[Row], _labels: Labels) -> str:
    group_type = rows[-1]["group_type"]
    return _times(f"{group_type} group created" if group_type else "group created", rows)


_TEXTS: Final[Mapping[str, Callable[[Sequence[Row], Labels], str]]] = {
    EventName.OFFSET_REWIND.value: _rewound,
    EventName.OFFSET_RESET.value: _rewound,
    EventName.OFFSET_DELETED.value: _deleted,
    EventName.OFFSET_EXPIRED.value: _deleted,
    EventName.TRANSACTION_HUNG.value: _hung,
    EventName.GROUP_CREATED.value: _created,
    EventName.GROUP_EMPTIED.value: lambda rows, _: _times("the last member left", rows),
    EventName.REBALANCE.value: _rebalanced,
    EventName.MEMBER_JOINED.value: _joined_or_left,
    EventName.MEMBER_LEFT.value: _joined_or_left,
    EventName.ASSIGNMENT_CHANGED.value: _assigned,
}


def _by(rows: Sequence[Row], labels: Labels) -> str:
    known = list(dict.fromkeys(who_text(row, labels) for row in rows))
    if len(known) > 1 or known[0] is None:
        # Different reasons, as for commits of several producers.
        return f"; client {NOT_RECORDED}"
    return f"; client {known[0]}" if known[0].startswith(NOT_RECORDED) else f" by {known[0]}"


def _partitions(rows: Iterable[Row]) -> set[tuple[str, int]]:
    return {(row["topic"], row["partition"]) for row in rows}


def _partition(row: Row) -> str:
    return f"{row['topic']}:{row['partition']}"


def _topics(rows: Iterable[Row]) -> str:
    return topics_text(row["topic"] for row in rows)


def _times(text: str, rows: Sequence[Row]) -> str:
    return text if len(rows) == 1 else f"{text} {len(rows):,} times{within_text(rows)}"


def _number_of_times(count: int, usual: int) -> str:
    """The number of times, nothing if it is the usual one."""
    if count == usual:
        return ""
    return " once" if count == 1 else f" {count:,} times"
