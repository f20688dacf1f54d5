"""Causes among the events of a group: offsets that were moved, members that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from coordinator_state.insight.event_digest import FoldedEvents, folded_events
from coordinator_state.insight.event_text import span_of
from coordinator_state.insight.evidence import (
    MOST_RECORDS,
    Cause,
    Evidence,
    dated,
    group_sql,
    record_ids_of,
    when,
)
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_facts import GroupDeletion, GroupFacts, Row
from coordinator_state.insight.group_status import Status, count_text

_LOOP: Final = 6
_LOOP_WITHIN: Final = timedelta(minutes=5)
_DEPLOY_WITHIN: Final = timedelta(minutes=10)
_OF_EVENTS: Final = {
    EventName.OFFSET_REWIND.value: Cause.OFFSET_REWIND,
    EventName.OFFSET_RESET.value: Cause.OFFSET_RESET,
    EventName.OFFSET_DELETED.value: Cause.OFFSET_DELETED,
    EventName.OFFSET_EXPIRED.value: Cause.OFFSET_EXPIRED,
    EventName.TRANSACTION_HUNG.value: Cause.TRANSACTION_HUNG,
}


def event_evidence(facts: GroupFacts) -> Iterator[Evidence]:
    """Rewinds, resets, deletions, expiries and hung transactions, equal ones folded."""
    if facts.deleted is not None:
        yield _group_deleted(facts, facts.deleted)
    for folded in folded_events(facts.events):
        cause = _OF_EVENTS.get(folded.events[0])
        if cause is not None:
            yield _folded(cause, folded, facts)


def _group_deleted(facts: GroupFacts, deleted: GroupDeletion) -> Evidence:
    again = "; it exists again" if facts.group_type is not None else ""
    return Evidence(
        cause=Cause.GROUP_DELETED,
        text=f"the group was deleted at {when(deleted.at, facts)}{again}; Kafka does not "
        "record who deleted it",
        at=deleted.at,
        record_ids=[deleted.record_id],
        is_event=True,
    )


def _folded(cause: Cause, folded: FoldedEvents, facts: GroupFacts) -> Evidence:
    rows = folded.rows
    return Evidence(
        cause=cause,
        text=dated(folded.text, folded.first_at, folded.last_at, facts),
        at=folded.first_at,
        last_at=folded.last_at,
        record_ids=record_ids_of(rows),
        is_event=True,
    )


# --- members


def member_evidence(facts: GroupFacts, recent: datetime, *, is_behind: bool) -> Iterator[Evidence]:
    """Members that left or were replaced, rebalances, and a group without members."""
    since = recent - _DEPLOY_WITHIN
    events = [row for row in facts.events if (row["record_timestamp"] or facts.at) >= since]
    changes = _MemberChanges.of(events, facts)
    # The status has told a deployment from a loop.
    is_looping = facts.status == Status.REBALANCING_LOOP.value
    deploy = changes.replaced >= 2 and changes.replaced * 2 >= changes.before and not is_looping
    rebalances = [row for row in events if row["event"] == EventName.REBALANCE]
    if deploy:
        yield _deploy(changes, rebalances, facts)
    elif rebalances and (is_looping or _is_loop(rebalances)):
        loop = folded_events(rebalances)[0]
        churn = folded_events([*changes.joined, *changes.left])
        text = f"{loop.text}; {churn[0].text}" if churn else loop.text
        yield _event(Cause.REBALANCES, text, rebalances, facts)
    if not is_behind:
        return
    if not facts.members and facts.group_type is not None and not facts.is_simple:
        yield _no_members(facts)
    elif not deploy and changes.gone > 0:
        gone = {row["client_id"] for row in changes.left}
        names = ", ".join(sorted(name or "a client without an id" for name in gone)[:MOST_RECORDS])
        verb = "was" if changes.gone == 1 else "were"
        text = (
            f"{count_text(changes.gone, 'member')} left and {verb} not replaced ({names}): "
            f"{changes.before} before, {len(facts.members)} now"
        )
        yield _event(Cause.MEMBERS_LEFT, text, changes.left, facts)


def _no_members(facts: GroupFacts) -> Evidence:
    emptied = [row for row in facts.events if row["event"] == EventName.GROUP_EMPTIED][-1:]
    at = emptied[0]["record_timestamp"] if emptied else None
    return Evidence(
        cause=Cause.NO_MEMBERS,
        text=f"no members since {when(at, facts)}" if emptied else "the group has no members",
        at=at,
        record_ids=record_ids_of(emptied),
        sql=None if emptied else group_sql(facts, "groups"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _MemberChanges:
    """Members before the events, and their changes since."""

    before: int
    replaced: int
    gone: int
    joined: Sequence[Row]
    left: Sequence[Row]

    @classmethod
    def of(cls, events: Sequence[Row], facts: GroupFacts) -> _MemberChanges:
        joined = [row for row in events if row["event"] == EventName.MEMBER_JOINED]
        left = [row for row in events if row["event"] == EventName.MEMBER_LEFT]
        new = {row["member_id"] for row in joined}
        now = {row["member_id"] for row in facts.members}
        first = {row["member_id"] for row in left} - new | (now - new)
        lost = first - now
        return cls(
            before=len(first),
            replaced=min(len(lost), len(now & new)),
            gone=len(first) - len(now),
            joined=joined,
            left=left,
        )


def _deploy(changes: _MemberChanges, rebalances: Sequence[Row], facts: GroupFacts) -> Evidence:
    rows = sorted([*changes.joined, *changes.left], key=lambda row: row["record_offset"])
    times = [row["record_timestamp"] for row in rows if row["record_timestamp"] is not None]
    within = ""
    if times:
        minutes = max(1, round((max(times) - min(times)).total_seconds() / 60))
        within = f" within {minutes} min" if minutes < 60 else ""
    new = len({row["member_id"] for row in changes.joined})
    text = (
        f"{changes.replaced} of {count_text(changes.before, 'member')} were replaced{within}, as a "
        f"deploy does: {count_text(new, 'new member')}, {count_text(len(rebalances), 'rebalance')}"
    )
    return _event(Cause.DEPLOY, text, rows, facts)


def _is_loop(rebalances: Sequence[Row]) -> bool:
    times = [row["record_timestamp"] for row in rebalances if row["record_timestamp"] is not None]
    pairs = zip(times, times[_LOOP - 1 :], strict=False)
    return any(last - first <= _LOOP_WITHIN for first, last in pairs)


def _event(cause: Cause, text: str, rows: Sequence[Row], facts: GroupFacts) -> Evidence:
    first, last = span_of(rows)
    return Evidence(
        cause=cause,
        text=dated(text, first, last, facts),
        at=first,
        last_at=last,
        record_ids=record_ids_of(rows),
        is_event=True,
    )
