"""The explanation of a group: why it is behind, since when, and what changed just before.

It needs no hint: all causes that the facts support are ranked. The first is the most direct cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from coordinator_state.insight.causes import (
    event_evidence,
    log_evidence,
    member_evidence,
    overdue,
    partition_evidence,
    pause_evidence,
    rate_evidence,
    transaction_evidence,
)
from coordinator_state.insight.evidence import Evidence, group_sql
from coordinator_state.insight.group_facts import GroupFacts
from coordinator_state.insight.group_status import Cause, moment_text
from coordinator_state.insight.lag_onset import (
    LEAST_LAG,
    Onset,
    fallen_from,
    growth,
    keeps_up,
    lag_onset,
)
from coordinator_state.replay.groups import EXTERNAL

MOST_EVIDENCE: Final = 6
GRACE: Final = timedelta(minutes=2)
"""Changes of members may come this long before the lag begins to grow."""
_OF_OFFSETS: Final = frozenset(
    {Cause.OFFSET_REWIND, Cause.OFFSET_RESET, Cause.OFFSET_DELETED, Cause.OFFSET_EXPIRED}
)
"""These change the lag at once."""
_RECENT: Final = timedelta(minutes=10)
"""For a group that is not behind, older events are no incident any more."""
_GROWN: Final = 3
_NEAR: Final = timedelta(minutes=1)
"""The last commit before a stop is the onset if the series has its onset this close to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a group is behind, or that it is not.

    `behind_since` is None if the group is not behind or the time is unknown. `fallen_from` is the
    greatest lag since then, None if the lag has not fallen. `evidence` has the most direct cause
    first, at most `MOST_EVIDENCE`.
    """

    group_id: str
    at: datetime
    status: str
    reason: str
    lag: int | None
    is_behind: bool
    behind_since: Onset | None
    fallen_from: float | None
    evidence: Sequence[Evidence]

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        if not self.is_behind:
            return f"{self.status}: {self.reason}"
        if self.lag is None:
            return f"{self.status}: the lag is unknown"
        since = ""
        if self.behind_since is not None:
            moment = moment_text(self.behind_since.at, self.at)
            since = f", growing since about {moment}"
            if self.fallen_from is not None:
                since = f", down from {self.fallen_from:,.0f}, since about {moment}"
            if self.behind_since.is_earlier:
                since = f", since before {moment}"
        return f"{self.status}: {self.lag:,} records behind{since}"


def explain(facts: GroupFacts) -> Explanation:
    """Explain a group from its facts; evidence about an external group cites no records."""
    onset = lag_onset(facts.series)
    is_behind = _is_behind(facts, onset)
    recent = facts.at - _RECENT
    if is_behind and onset is not None:
        recent = facts.since if onset.is_earlier else onset.at - GRACE
    on_topics = list(log_evidence(facts))
    evidence = [
        *on_topics,
        *transaction_evidence(facts),
        *event_evidence(facts),
        *member_evidence(facts, recent, is_behind=is_behind),
    ]
    if is_behind:
        evidence += partition_evidence(facts)
        evidence += pause_evidence(facts, recent)
        evidence += rate_evidence(facts, None if onset is None else onset.at)
    elif not on_topics:
        evidence += _fine(facts)
    ranked = sorted(evidence, key=lambda line: _weight(line, recent, onset if is_behind else None))
    if not ranked:
        ranked = [Evidence(cause=Cause.STATUS, text=facts.reason)]
    if facts.group_type == EXTERNAL:
        # No log has its offsets.
        sql = group_sql(facts, "external_offsets", "commit_timestamp DESC")
        ranked = [replace(line, record_ids=(), sql=line.sql or sql) for line in ranked]
    behind_since = _exact(onset, facts) if is_behind else None
    return Explanation(
        group_id=facts.group_id,
        at=facts.at,
        status=facts.status,
        reason=facts.reason,
        lag=facts.lag,
        is_behind=is_behind,
        behind_since=behind_since,
        fallen_from=behind_since and fallen_from(facts.series, behind_since),
        evidence=ranked[:MOST_EVIDENCE],
    )


def _weight(evidence: Evidence, recent: datetime, onset: Onset | None) -> tuple[bool, int, float]:
    """The order of evidence: causes in the time of the incident, then by directness."""
    at = evidence.last_at or evidence.at
    since = recent
    if evidence.cause in _OF_OFFSETS and onset is not None and not onset.is_earlier:
        # The group has caught up after a move of its offsets from before the onset.
        since = onset.at
    is_old = at is not None and at < since and evidence.is_event
    return is_old, list(Cause).index(evidence.cause), 0.0 if at is None else -at.timestamp()


def _is_behind(facts: GroupFacts, onset: Onset | None) -> bool:
    """Whether the group has a problem with its lag, by its status or by the growth of the lag."""
    if not facts.lag:
        return False
    if not facts.is_healthy or overdue(facts):
        return True
    known = [lag for lag in facts.series.lag if lag is not None]
    if onset is None or len(known) < _GROWN or keeps_up(facts.series):
        return False
    before = median(known[: max(_GROWN, len(known) // 5)])
    has_grown = known[-1] >= _GROWN * before + LEAST_LAG
    return has_grown and facts.at - onset.at >= timedelta(minutes=1)


def _exact(onset: Onset | None, facts: GroupFacts) -> Onset | None:
    """The last commit before a stop, if the lag began to grow then."""
    stopped = overdue(facts)
    if onset is None or onset.is_earlier or not stopped:
        return onset
    last = max(partition.last.at for partition in stopped)
    return Onset(last, is_earlier=False) if abs(last - onset.at) <= _NEAR else onset


def _fine(facts: GroupFacts) -> Iterator[Evidence]:
    if facts.group_type is None or not facts.is_healthy:
        return
    grown = growth(facts.series)
    if facts.lag and grown is not None:
        text = f"{facts.lag:,} records behind, {grown:,.0f} more than 10 min ago"
        yield Evidence(cause=Cause.STATUS, text=text, sql=group_sql(facts, "group_lag"))
        return
    if facts.lag:
        text = f"within the limits of the rules: {facts.reason}"
        yield Evidence(cause=Cause.CAUGHT_UP, text=text)
        return
    text = f"{facts.reason}{_caught_up_since(facts)}"
    if not facts.events:
        text += "; nothing unusual in the last hour"
    yield Evidence(cause=Cause.CAUGHT_UP, text=text)


def _caught_up_since(facts: GroupFacts) -> str:
    """The first time after which the lag is zero at each known point."""
    pairs = zip(facts.series.at, facts.series.lag, strict=True)
    known = [(at, lag) for at, lag in pairs if lag is not None]
    # An offset past the log end has no lag, but the group has not caught up.
    out_of_range = facts.in_range_since
    behind = [at for at, lag in known if lag or (out_of_range is not None and at < out_of_range)]
    since = [at for at, _ in known if not behind or at > behind[-1]]
    if not since:
        return ""
    return f"{' since' if behind else ' since before'} {moment_text(since[0], facts.at)}"
