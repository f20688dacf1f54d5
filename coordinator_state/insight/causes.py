"""The evidence for the causes of a lag: transactions, topics, events, members and rates.

The verdict of the evaluation has the cause of a status. The evidence adds the records that show it,
and what the evaluation does not look for: who moved an offset, which members came and went, and
which rate has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import mean, median
from typing import Final

from coordinator_state.insight.event_digest import FoldedEvents, folded_events
from coordinator_state.insight.event_text import span_of
from coordinator_state.insight.evidence import (
    MOST_RECORDS,
    Evidence,
    commits_sql,
    dated,
    group_sql,
    partition_sql,
    places_text,
    record_ids_of,
    samples_sql,
    topic_names,
    when,
)
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_facts import (
    GroupDeletion,
    GroupFacts,
    OpenTransaction,
    Partition,
    PartitionHistory,
    Row,
)
from coordinator_state.insight.group_status import Cause, Status, count_text, time_text
from coordinator_state.insight.kafka_commands import transaction_commands
from coordinator_state.insight.lag import GONE
from coordinator_state.insight.lag_text import behind_text

_OVERDUE_FOR: Final = timedelta(seconds=10)
"""A commit may be overdue this soon, before the evaluation looks whether the group has stopped."""
_STOPS: Final = frozenset({Cause.NO_COMMITS, Cause.NO_MEMBERS, Cause.NO_OWNER})
_CHANGED: Final = 1.5
"""The least factor between two rates that counts as a change."""
_SHARE_OF_ONE: Final = 0.7
_DEPLOY_WITHIN: Final = timedelta(minutes=10)
_OF_EVENTS: Final = {
    EventName.OFFSET_REWIND.value: Cause.OFFSET_REWIND,
    EventName.OFFSET_RESET.value: Cause.OFFSET_RESET,
    EventName.OFFSET_DELETED.value: Cause.OFFSET_DELETED,
    EventName.OFFSET_EXPIRED.value: Cause.OFFSET_EXPIRED,
    EventName.TRANSACTION_HUNG.value: Cause.TRANSACTION_HUNG,
}

# --- transactions


def transaction_evidence(facts: GroupFacts) -> Iterator[Evidence]:
    """Open transactions that hold commits back, or records, and aborted commits."""
    if facts.is_healthy:
        return
    begun_before = facts.known_until - _time(facts.rules.pending_after_ms)
    holding = [
        transaction for transaction in facts.transactions if transaction.since <= begun_before
    ]
    for transaction in holding:
        yield _open(transaction, facts)
    if facts.cause is Cause.OPEN_TRANSACTION and not holding:
        # That of a producer in a topic, whose last stable offset is all that is known of it.
        behind = [partition for partition in facts.partitions if partition.lag]
        sql = samples_sql(behind) if behind else None
        yield Evidence(cause=Cause.OPEN_TRANSACTION, text=facts.reason, sql=sql)
    aborting = [partition for partition in facts.partitions if len(partition.aborted) > 1]
    if aborting:
        aborted = sorted(commit for partition in aborting for commit in partition.aborted)
        first, last = aborted[0], aborted[-1]
        yield Evidence(
            cause=Cause.ABORTED_TRANSACTIONS,
            text=f"all {count_text(len(aborted), 'commit')} since {when(first.at, facts)} were "
            f"aborted, the last at {when(last.at, facts)}; {_stands(aborting)}",
            at=first.at,
            last_at=last.at,
            record_ids=[first.record_id, last.record_id],
            sql=commits_sql(facts, "outcome = 'aborted'"),
        )


def _stands(partitions: Sequence[PartitionHistory]) -> str:
    first = partitions[0]
    if len(partitions) == 1:
        return f"committed offset {first.last.committed_offset:,} of {first.place} is unchanged"
    return f"the committed offsets of {len(partitions)} partitions are unchanged"


def _open(transaction: OpenTransaction, facts: GroupFacts) -> Evidence:
    commands = transaction_commands(
        transaction.log_partition,
        transaction.first_record_offset,
        two_phase_commit_id=transaction.two_phase_commit_id,
    )
    offsets = count_text(transaction.offsets, "offset")
    text = f"{_owner_text(transaction)} has held {offsets} since {when(transaction.since, facts)}"
    if transaction.is_marker_lost:
        text += "; its coordinator has ended it, so the offsets stay pending until you abort it"
    elif transaction.owner is not None and transaction.owner.abort_timestamp is not None:
        due = when(transaction.owner.abort_timestamp, facts)
        text += f"; the coordinator aborts it within 10 s after {due}"
    elif transaction.two_phase_commit_id is not None:
        text += "; it is a two-phase commit, which only its application commits or aborts"
    return Evidence(
        cause=Cause.OPEN_TRANSACTION,
        text=text,
        at=transaction.since,
        record_ids=[(transaction.log_partition, transaction.first_record_offset)],
        sql=group_sql(facts, "pending_offsets"),
        commands=commands.lines(is_known_to_coordinator=transaction.is_known_to_coordinator),
    )


def _owner_text(transaction: OpenTransaction) -> str:
    producer = f"producer {transaction.producer_id}"
    client = f"client {transaction.client_id} at {transaction.client_host}"
    owner, is_known = transaction.owner, transaction.client_id is not None
    if owner is None or owner.transactional_id is None:
        by = f"({client})" if is_known else "(client unknown)"
        return f"an open transaction of {producer} {by}"
    more = f"{producer}, {client}" if is_known else producer
    return f"an open transaction of {owner.transactional_id} ({more})"


# --- topics


def log_evidence(facts: GroupFacts) -> Iterator[Evidence]:
    """Topics that were deleted or created again, and records deleted before they were read."""
    places: list[Partition] = [*facts.partitions, *facts.uncommitted]
    gone = [partition for partition in places if partition.topic_state == GONE]
    if gone:
        remaining = [partition for partition in facts.partitions if partition in gone]
        verb = "remains" if len(remaining) == 1 else "remain"
        first = min((at for at in (place.gone_since for place in gone) if at), default=None)
        by = "" if first is None else f" by {when(first, facts)}"
        remain = f"{count_text(len(remaining), 'committed offset')} {verb}"
        yield Evidence(
            cause=Cause.TOPIC_DELETED,
            text=f"topic {topic_names(gone)} was deleted{by}; "
            f"{remain if remaining else 'members have it assigned, or subscribe to it'}",
            at=first,
            record_ids=[partition.last.record_id for partition in remaining[:MOST_RECORDS]],
            sql=samples_sql(gone),
        )
    again = [partition for partition in places if partition.recreated_at is not None]
    if again:
        old = [partition for partition in facts.partitions if partition in again]
        at = again[0].recreated_at
        committed = "no committed offset since"
        if old:
            committed = (
                f"committed offset {old[0].last.committed_offset:,} of {old[0].place} is of the "
                f"deleted topic, log end {old[0].log_end_offset or 0:,}"
            )
        yield Evidence(
            cause=Cause.TOPIC_RECREATED,
            text=f"topic {topic_names(again)} was deleted and created again at {when(at, facts)}; "
            f"{committed}",
            at=at,
            record_ids=[partition.last.record_id for partition in old[:MOST_RECORDS]],
            sql=samples_sql(again),
        )
    lost = [each for each in facts.partitions if each.cause is Cause.DATA_LOSS]
    if lost and not again:
        records = sum(partition.data_lost or 0 for partition in lost)
        yield Evidence(
            cause=Cause.DATA_LOSS,
            text=f"{count_text(records, 'record')} of {topic_names(lost)} deleted before the "
            "group read them",
            record_ids=[partition.last.record_id for partition in lost[:MOST_RECORDS]],
            sql=samples_sql(lost),
        )


# --- events


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
    # The evaluation distinguishes a deployment from a loop.
    is_looping = facts.cause is Cause.REBALANCES
    has_looped = facts.loop_ended_at is not None and facts.loop_ended_at >= since
    deploy = changes.replaced >= 2 and changes.replaced * 2 >= changes.before and not is_looping
    rebalances = [row for row in events if row["event"] == EventName.REBALANCE]
    if deploy:
        yield _deploy(changes, rebalances, facts)
    elif rebalances and (is_looping or has_looped):
        loop = folded_events(rebalances)[0]
        churn = folded_events([*changes.joined, *changes.left])
        text = f"{loop.text}; {churn[0].text}" if churn else loop.text
        yield _event(Cause.REBALANCES, text, rebalances, facts)
    if not is_behind:
        return
    if not facts.members and facts.group_type is not None and not facts.is_simple:
        # By the evaluation, those of a healthy group come back.
        if not facts.is_healthy or overdue(facts):
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


# --- partitions and rates


def partition_evidence(facts: GroupFacts) -> Iterator[Evidence]:
    """Partitions that stand still, have no member, or have most of the lag; silent groups."""
    behind = [partition for partition in facts.partitions if partition.lag]
    stuck = [partition for partition in behind if partition.cause is Cause.SAME_OFFSET]
    if stuck:
        yield _same_offset(stuck, facts)
    ownerless = [partition for partition in behind if partition.cause is Cause.NO_OWNER]
    if ownerless:
        since = max(partition.last.at for partition in ownerless)
        yield Evidence(
            cause=Cause.NO_OWNER,
            text=f"no member owns {places_text(ownerless)}, although the group has "
            f"{count_text(len(facts.members), 'member')}; last commit {when(since, facts)}",
            at=since,
            record_ids=[partition.last.record_id for partition in ownerless[:MOST_RECORDS]],
            sql=group_sql(facts, "group_lag", "lag DESC"),
        )
    yield from _one_partition(behind, facts)
    yield from _no_commits(facts)
    yield from _uncommitted(facts)


def _same_offset(stuck: Sequence[PartitionHistory], facts: GroupFacts) -> Evidence:
    worst = max(stuck, key=lambda partition: partition.lag or 0)
    since = min(partition.same_since.at for partition in stuck)
    others = len(facts.partitions) - len(stuck)
    beside = ""
    if others:
        verb = "advances" if others == 1 else "advance"
        beside = f"; {count_text(others, 'other partition')} {verb}"
    offset, record_ids = worst.last.committed_offset, [worst.last.record_id]
    text = f"{worst.place} is still at offset {offset:,}, committed {when(since, facts)}"
    if worst.same > 1:
        record_ids.insert(0, worst.same_since.record_id)
        text = (
            f"{count_text(worst.same, 'commit')} of {worst.place} at the same offset {offset:,} "
            f"since {when(since, facts)}"
        )
    if len(stuck) > 1:
        text += f", and of {count_text(len(stuck) - 1, 'other partition')}"
    return Evidence(
        cause=Cause.SAME_OFFSET,
        text=f"{text}{beside}",
        at=since,
        record_ids=record_ids,
        sql=commits_sql(facts, partition_sql(worst)),
    )


def _one_partition(behind: Sequence[PartitionHistory], facts: GroupFacts) -> Iterator[Evidence]:
    total = sum(partition.lag or 0 for partition in behind)
    worst = max(behind, key=lambda partition: partition.lag or 0, default=None)
    if worst is None or len(facts.partitions) < 2 or (worst.lag or 0) < _SHARE_OF_ONE * total:
        return
    by = "" if worst.owner is None else f", read by {worst.owner[0]} at {worst.owner[1]}"
    yield Evidence(
        cause=Cause.ONE_PARTITION,
        text=f"{worst.place} has {worst.lag or 0:,} of the {total:,} records of lag{by}; "
        f"{count_text(len(facts.partitions), 'partition')} in all",
        record_ids=[worst.last.record_id],
        sql=group_sql(facts, "group_lag", "lag DESC"),
    )


def overdue(facts: GroupFacts) -> Sequence[PartitionHistory]:
    """Partitions with a lag and no commit for clearly longer than usual."""
    return [
        partition
        for partition in facts.partitions
        if partition.lag and _is_overdue(partition, facts)
    ]


def _is_overdue(partition: PartitionHistory, facts: GroupFacts) -> bool:
    if partition.status == Status.STOP.value or partition.cause in _STOPS:
        return True
    # A group that reads nothing between two bursts has nothing to commit.
    silent = facts.known_until - partition.last.at
    if partition.waiting_ms is not None:
        silent = min(silent, _time(partition.waiting_ms))
    if partition.aborted or partition.usual_commit_ms is None:
        return False
    is_overdue = silent > max(_OVERDUE_FOR, _usual_intervals(partition, facts))
    is_known = facts.status != Status.UNKNOWN.value and partition.cause is None
    # After `stop_after`, a partition with a known status and no cause rests.
    return is_overdue and not (is_known and silent > _time(facts.rules.stop_after_ms))


def _uncommitted(facts: GroupFacts) -> Iterator[Evidence]:
    unread = [
        partition for partition in facts.uncommitted if partition.cause is Cause.NO_COMMITTED_OFFSET
    ]
    if not unread:
        return
    since = min(partition.uncommitted_since for partition in unread)
    bound = any(partition.is_lag_lower_bound for partition in unread)
    records = sum(partition.lag or 0 for partition in unread)
    yield Evidence(
        cause=Cause.NO_COMMITTED_OFFSET,
        text=f"no committed offset of {places_text(unread)} since {when(since, facts)}: "
        f"{behind_text(records, is_lower_bound=bound)}",
        at=since,
        sql=group_sql(facts, "group_lag", "lag DESC"),
    )


def _no_commits(facts: GroupFacts) -> Iterator[Evidence]:
    stopped = overdue(facts)
    if not stopped:
        return
    last = max(stopped, key=lambda partition: partition.last.at)
    newest = max(facts.partitions, key=lambda partition: partition.last.at)
    usual = [
        partition.usual_commit_ms for partition in stopped if partition.usual_commit_ms is not None
    ]
    pace = f", usually within {time_text(median(usual))}" if usual else ""
    of, others = "", ""
    moving = [
        partition
        for partition in facts.partitions
        if partition not in stopped and partition.last.at > last.last.at
    ]
    if moving and not _is_overdue(newest, facts):
        of = f" of {places_text(stopped)}"
        verb = "has" if len(moving) == 1 else "have"
        others = f"; {count_text(len(moving), 'other partition')} {verb} later commits"
    members = f"{count_text(len(facts.members), 'member')}, " if facts.members else ""
    yield Evidence(
        cause=Cause.NO_COMMITS,
        text=f"{members}no commit{of} since {when(last.last.at, facts)}{pace}{others}",
        at=last.last.at,
        record_ids=[last.last.record_id],
        sql=commits_sql(facts),
    )


def pause_evidence(facts: GroupFacts, since: datetime) -> Iterator[Evidence]:
    """The longest time without a commit, if it ended after `since` and records still wait."""
    pauses = [
        (end.at - start.at, partition, start, end)
        for partition in facts.partitions
        if partition.lag and partition.pause is not None and not _is_overdue(partition, facts)
        for start, end in [partition.pause]
        if end.at >= since
        and end.at - start.at
        > max(_time(facts.rules.stop_after_ms), _usual_intervals(partition, facts))
    ]
    if not pauses:
        return
    _, partition, start, end = max(pauses, key=lambda pause: pause[0])
    yield Evidence(
        cause=Cause.NO_COMMITS,
        text=f"no commit of {partition.place} from {when(start.at, facts)} to "
        f"{when(end.at, facts)}, usually within {time_text(partition.usual_commit_ms or 0)}",
        at=end.at,
        record_ids=[start.record_id, end.record_id],
        sql=commits_sql(facts, partition_sql(partition)),
        is_event=True,
    )


def _usual_intervals(partition: PartitionHistory, facts: GroupFacts) -> timedelta:
    """The usual intervals between commits after which the group may have stopped."""
    return facts.rules.stop_intervals * _time(partition.usual_commit_ms or 0)


def _time(ms: float) -> timedelta:
    return timedelta(milliseconds=ms)


def rate_evidence(facts: GroupFacts, onset: datetime | None) -> Iterator[Evidence]:
    """Changes of the rates at which producers write and the group reads."""
    if onset is None:
        return
    for cause, values, verb in (
        (Cause.PRODUCTION_RATE, facts.series.produce_rate_per_s, "producers write"),
        (Cause.CONSUMPTION_RATE, facts.series.commit_rate_per_s, "the group reads"),
    ):
        pairs = list(zip(facts.series.at, values, strict=True))
        before = [rate for at, rate in pairs if at <= onset and rate is not None]
        # A rate below zero is a rewind.
        after = [rate for at, rate in pairs if at > onset and rate is not None and rate >= 0]
        if not before or not after:
            continue
        # Since the onset, a group may have stopped and then read fast.
        was, now = median(before), mean(after)
        is_more = cause is Cause.PRODUCTION_RATE
        greater, smaller = (now, was) if is_more else (was, now)
        # A group that reads nothing at all has other evidence.
        if median(after) > 0 and greater >= _CHANGED * max(smaller, 0):
            behind = [partition for partition in facts.partitions if partition.lag]
            yield Evidence(
                cause=cause,
                text=f"{verb} {now:,.3g} records/s since {when(onset, facts)}, "
                f"{'up' if is_more else 'down'} from {max(was, 0):,.3g}",
                at=onset,
                sql=samples_sql(behind) if is_more else commits_sql(facts),
            )
