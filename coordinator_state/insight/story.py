"""The explanation of a group as a story: at most five lines, in the order in which one reads it.

When the lag began, its cause, one more fact, the outlook, and the next step. A group that keeps up
has fewer lines. Further evidence is in `more`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from coordinator_state.insight.evidence import (
    Evidence,
    around_sql,
    group_sql,
    records_sql,
    when,
)
from coordinator_state.insight.explanation import GRACE, Explanation
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_facts import GroupFacts, RecordId
from coordinator_state.insight.group_status import Cause, count_text, time_text
from coordinator_state.insight.kafka_commands import cannot_be_reset, shell_word
from coordinator_state.insight.lag_onset import LEAST_LAG, Onset
from coordinator_state.replay.groups import EXTERNAL

_AROUND: Final = timedelta(minutes=1)
_TREND_OVER: Final = timedelta(minutes=2)
_LEAST_SPAN: Final = timedelta(seconds=30)
_JUMPS: Final = (EventName.OFFSET_REWIND, EventName.OFFSET_RESET)
_OF_STATE: Final = frozenset({Cause.CAUGHT_UP, Cause.STATUS})


class Part(str, Enum):
    """The part that a line has in the story; the value is its heading."""

    BEGIN = "Began"
    CAUSE = "Cause"
    STATE = "State"
    ALSO = "Also"
    OUTLOOK = "Outlook"
    ACTION = "Next step"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryLine:
    """One line of a story.

    `at` and `last_at` are its first and last moments, None if it has none. `record_ids` are the
    records that show it, or the first and the last of them (`is_range`). `sql` is the query for
    these records, without records one that shows the line. `is_now` is true if it is about the
    moment of the story.
    """

    part: Part
    text: str
    at: datetime | None = None
    last_at: datetime | None = None
    record_ids: Sequence[RecordId] = ()
    is_range: bool = False
    sql: str | None = None
    commands: Sequence[str] = ()
    is_now: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Why a group is behind, in a few lines, with the facts of its moment.

    `waiting_ms` is the age of the first uncommitted record or its lower bound.
    """

    group_id: str
    at: datetime
    headline: str
    is_behind: bool
    lag: int | None
    waiting_ms: int | None
    members: int
    lines: Sequence[StoryLine]
    more: Sequence[StoryLine]

    @property
    def commands(self) -> Sequence[str]:
        """The command lines of all lines."""
        return [command for line in self.lines for command in line.commands]


def story_of(facts: GroupFacts, explanation: Explanation) -> Story:
    """The story of a group from its facts and their explanation."""
    first, *others = explanation.evidence
    second = next(
        (evidence for evidence in others if not _is_old(evidence, explanation.behind_since)), None
    )
    lines = [
        *_begin(facts, explanation),
        _line(_part(first, Part.CAUSE), first, facts),
        *([] if second is None else [_line(_part(second, Part.ALSO), second, facts)]),
        *(_outlook(facts, explanation.behind_since) if explanation.is_behind else ()),
        *_action(facts, explanation),
    ]
    waiting = [
        partition.waiting_ms for partition in facts.partitions if partition.waiting_ms is not None
    ]
    return Story(
        group_id=facts.group_id,
        at=facts.at,
        headline=explanation.headline,
        is_behind=explanation.is_behind,
        lag=facts.lag,
        waiting_ms=max(waiting, default=None),
        members=len(facts.members),
        lines=lines,
        more=[_line(Part.ALSO, evidence, facts) for evidence in others if evidence is not second],
    )


def _is_old(evidence: Evidence, onset: Onset | None) -> bool:
    """Whether it ended before the lag began to grow."""
    at = evidence.last_at or evidence.at
    return evidence.is_event and onset is not None and at is not None and at < onset.at - GRACE


def _part(evidence: Evidence, part: Part) -> Part:
    return Part.STATE if evidence.cause in _OF_STATE else part


def _line(part: Part, evidence: Evidence, facts: GroupFacts) -> StoryLine:
    return StoryLine(
        part=part,
        text=evidence.text,
        at=evidence.at,
        last_at=evidence.last_at,
        record_ids=evidence.record_ids,
        is_range=evidence.is_range,
        sql=records_sql(facts, evidence),
    )


def _begin(facts: GroupFacts, explanation: Explanation) -> Iterator[StoryLine]:
    onset = explanation.behind_since
    if onset is None or facts.lag is None:
        return
    if onset.is_earlier:
        text = f"the lag began before {when(onset.at, facts)}, the earliest data"
        yield StoryLine(part=Part.BEGIN, text=text, at=onset.at)
        return
    pairs = zip(facts.series.at, facts.series.lag, strict=True)
    before = [lag for at, lag in pairs if lag is not None and at <= onset.at]
    then = f"{count_text(round(before[-1]), 'record')} then, " if before else ""
    most = explanation.fallen_from
    peak = "" if most is None else f", {most:,.0f} at most"
    yield StoryLine(
        part=Part.BEGIN,
        text=f"the lag began to grow at about {when(onset.at, facts)}: {then}{facts.lag:,} now"
        f"{peak}",
        at=onset.at,
        sql=None if facts.group_type == EXTERNAL else around_sql(facts, onset.at, _AROUND),
    )


def _outlook(facts: GroupFacts, onset: Onset | None) -> Iterator[StoryLine]:
    """The outlook: whether the lag grows, and when records are deleted unread."""
    margins = [partition.retention_margin_ms for partition in facts.partitions]
    known = [margin for margin in margins if margin is not None]
    parts = [
        *_trend(facts, onset),
        *([_deletion_text(min(known))] if known else []),
    ]
    if parts:
        sql = group_sql(facts, "group_lag", "lag DESC")
        text = "; ".join(parts)
        yield StoryLine(part=Part.OUTLOOK, text=text, at=facts.at, sql=sql, is_now=True)


def _deletion_text(margin_ms: int) -> str:
    if not margin_ms:
        return "the oldest unread records may be deleted at any time"
    return f"the oldest unread records may be deleted in {time_text(margin_ms)}"


def _trend(facts: GroupFacts, onset: Onset | None) -> Iterator[str]:
    """The change of the lag in the last minutes, since it last turned or an offset was set back."""
    known = _since_turn(_since_jump(facts, onset))
    if not known or known[-1][0] - known[0][0] < _LEAST_SPAN:
        return
    (first, before), (last, now) = known[0], known[-1]
    change = now - before
    per_s = abs(change) / (last - first).total_seconds()
    if abs(change) <= LEAST_LAG:
        yield "the lag is steady"
    elif change > 0:
        yield f"the lag grows by {per_s:,.3g} records/s"
    else:
        left = time_text(1000 * now / per_s)
        yield f"the lag falls by {per_s:,.3g} records/s, to zero in about {left}"


def _since_jump(facts: GroupFacts, onset: Onset | None) -> Sequence[tuple[datetime, float]]:
    """The lag of the last minutes, since its onset, and after the last jump of an offset."""
    jumps = [event["record_timestamp"] for event in facts.events if event["event"] in _JUMPS]
    jump = max((at for at in jumps if at is not None), default=facts.since)
    since = max(facts.at - _TREND_OVER, facts.since if onset is None else onset.at)
    pairs = zip(facts.series.at, facts.series.lag, strict=True)
    return [(at, lag) for at, lag in pairs if lag is not None and at >= since and at > jump]


def _since_turn(known: Sequence[tuple[datetime, float]]) -> Sequence[tuple[datetime, float]]:
    """The points from the greatest or smallest lag on, whichever is later and not the last.

    >>> noon = datetime(2026, 11, 27, 12)
    >>> lags = [90.0, 40.0, 10.0, 30.0, 60.0]
    >>> points = [(noon + timedelta(seconds=30 * step), lag) for step, lag in enumerate(lags)]
    >>> [lag for _, lag in _since_turn(points)]
    [10.0, 30.0, 60.0]
    """
    lags = [lag for _, lag in known]
    turns = [0]
    for extreme in (max(lags, default=0), min(lags, default=0)):
        turns += [number for number, lag in enumerate(lags[:-1]) if lag == extreme != lags[-1]]
    return known[max(turns) :]


def _action(facts: GroupFacts, explanation: Explanation) -> Iterator[StoryLine]:
    first, *others = explanation.evidence
    text = _advice(first, is_behind=explanation.is_behind)
    if text is not None:
        more = [command for evidence in others for command in evidence.commands]
        commands = [*_step_commands(facts.group_id, first), *more]
        yield StoryLine(part=Part.ACTION, text=text, commands=commands)


_UNDO: Final = "if this was a mistake, stop the members and plan a reset to the earlier offsets"

_ADVICE: Final[Mapping[Cause, str]] = {
    Cause.TOPIC_DELETED: "create the topic again if it is still needed, or stop its consumers",
    Cause.TOPIC_RECREATED: "stop the members, and reset the group to an offset of the new topic",
    Cause.DATA_LOSS: "add members or raise the retention of the topic; the lost records are gone",
    Cause.ABORTED_TRANSACTIONS: "find the reason for the aborts in the application's log; "
    "the group rereads the same records until a transaction commits",
    Cause.OFFSET_REWIND: "find the client that set the offsets back; to skip the repeated "
    "records, stop it and plan a reset",
    Cause.OFFSET_RESET: _UNDO,
    Cause.OFFSET_EXPIRED: "plan a reset to the earlier offsets, then start the members",
    Cause.GROUP_DELETED: _UNDO,
    Cause.OFFSET_DELETED: _UNDO,
    Cause.NO_MEMBERS: "start the consumers of the group",
    Cause.DEPLOY: "compare the new members with the old ones, and roll back if they are slower",
    Cause.REBALANCES: "look in the log of the member that joins and leaves: it restarts, or a poll "
    "takes longer than max.poll.interval.ms",
    Cause.SAME_OFFSET: "look at the record at this offset: the group cannot get past it",
    Cause.MEMBERS_LEFT: "start the members that left",
    Cause.NO_OWNER: "look at the assignor and the subscriptions of the members, and restart them",
    Cause.NO_COMMITS: "look at the threads and the log of the application: it has stopped "
    "committing, and may have stopped reading",
    Cause.PRODUCTION_RATE: "add members, up to one per partition, or slow the producers down",
    Cause.ONE_PARTITION: "look at the owner of the partition, and at the keys of its records",
    Cause.CONSUMPTION_RATE: "look for the bottleneck of the members (CPU, GC, calls to other "
    "services), or add members",
    Cause.TRANSACTION_HUNG: "find out in the application's log why its transaction took so long",
}
_MOVED: Final = frozenset(
    {
        *(Cause.OFFSET_REWIND, Cause.OFFSET_RESET, Cause.OFFSET_EXPIRED, Cause.OFFSET_DELETED),
        Cause.GROUP_DELETED,
    }
)
_ONCE: Final = _MOVED | {Cause.TOPIC_DELETED, Cause.TOPIC_RECREATED, Cause.DATA_LOSS}
"""These ask for a step even if the group is not behind."""


def _advice(evidence: Evidence, *, is_behind: bool) -> str | None:
    """The next step; None if there is nothing to do."""
    if evidence.cause is Cause.OPEN_TRANSACTION:
        return _end_transaction(evidence)
    if evidence.cause is Cause.REBALANCES or is_behind or evidence.cause in _ONCE:
        return _ADVICE.get(evidence.cause)
    return None


def _step_commands(group_id: str, evidence: Evidence) -> Sequence[str]:
    """The command lines for the next step: those of the evidence, and the plan of a reset."""
    if evidence.cause not in _MOVED or evidence.at is None or cannot_be_reset(group_id):
        return evidence.commands
    before = (evidence.at - timedelta(seconds=1)).isoformat(timespec="seconds")
    plan = (
        f"coordinator-state plan reset {shell_word(group_id)} --to-state-at "
        f"{before.replace('+00:00', 'Z')} --tables tables --file plan.csv"
    )
    return [*evidence.commands, plan]


def _end_transaction(evidence: Evidence) -> str:
    if any(" abort " in command for command in evidence.commands):
        return "restart the producer; if find-hanging lists the transaction, abort it"
    if any("forceTerminateTransaction" in command for command in evidence.commands):
        return "let the application commit or abort its two-phase commit"
    return "restart the producer: its coordinator then ends the transaction"
