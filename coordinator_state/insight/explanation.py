"""The explanation of a group: why it is behind, since when, and what changed just before.

It needs no hint: all causes that the facts support are ranked. The first is the most direct cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Final, NamedTuple

from coordinator_state.insight.event_causes import event_evidence, member_evidence
from coordinator_state.insight.evidence import Cause, Evidence
from coordinator_state.insight.group_facts import GroupFacts, LagSeries
from coordinator_state.insight.group_status import moment_text
from coordinator_state.insight.lag_causes import (
    log_evidence,
    partition_evidence,
    rate_evidence,
    transaction_evidence,
)

MOST_EVIDENCE: Final = 6
_GRACE: Final = timedelta(minutes=2)
"""A cause may come this long before the lag begins to grow."""
_RECENT: Final = timedelta(minutes=10)
"""For a group that is not behind, older events are no incident any more."""
_GROWN: Final = 3
_LEAST_LAG: Final = 10


class Onset(NamedTuple):
    """The time when the lag began to grow; earlier than `at` if the facts do not reach back."""

    at: datetime
    is_earlier: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a group is behind, or that it is not.

    `behind_since` is None if the group is not behind or the time is unknown. `evidence` has the
    most direct cause first, at most `MOST_EVIDENCE`.
    """

    group_id: str
    at: datetime
    status: str
    reason: str
    lag: int | None
    is_behind: bool
    behind_since: Onset | None
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
            since = f", at least since {moment}" if self.behind_since.is_earlier else ""
            since = since or f", growing since about {moment}"
        return f"{self.status}: {self.lag:,} records behind{since}"


def explain(facts: GroupFacts) -> Explanation:
    """Explain a group from its facts."""
    onset = lag_onset(facts.series)
    is_behind = _is_behind(facts, onset)
    recent = facts.at - _RECENT
    if is_behind and onset is not None:
        recent = facts.since if onset.is_earlier else onset.at - _GRACE
    on_topics = list(log_evidence(facts))
    found = [
        *on_topics,
        *transaction_evidence(facts),
        *event_evidence(facts),
        *member_evidence(facts, recent, is_behind=is_behind),
    ]
    if is_behind:
        found += partition_evidence(facts)
        found += rate_evidence(facts, None if onset is None else onset.at)
    elif not on_topics:
        found += _fine(facts)
    ranked = sorted(found, key=lambda one: _weight(one, recent))
    if not ranked:
        ranked = [Evidence(cause=Cause.STATUS, text=facts.reason)]
    return Explanation(
        group_id=facts.group_id,
        at=facts.at,
        status=facts.status,
        reason=facts.reason,
        lag=facts.lag,
        is_behind=is_behind,
        behind_since=onset if is_behind else None,
        evidence=ranked[:MOST_EVIDENCE],
    )


def _weight(evidence: Evidence, recent: datetime) -> tuple[bool, int, float]:
    """The order of evidence: causes in the time of the incident, then by directness."""
    at = evidence.last_at or evidence.at
    is_old = at is not None and at < recent and evidence.is_event
    return is_old, list(Cause).index(evidence.cause), 0.0 if at is None else -at.timestamp()


def _is_behind(facts: GroupFacts, onset: Onset | None) -> bool:
    """Whether the group has a problem with its lag, by its status or by the growth of the lag."""
    if not facts.lag:
        return False
    if not facts.is_healthy:
        return True
    known = [lag for lag in facts.series.lag if lag is not None]
    if onset is None or len(known) < _GROWN:
        return False
    before = median(known[: max(_GROWN, len(known) // 5)])
    has_grown = known[-1] >= _GROWN * before + _LEAST_LAG
    return has_grown and facts.at - onset.at >= timedelta(minutes=1)


def lag_onset(series: LagSeries) -> Onset | None:
    """The last time before which the lag was low; None if it is zero now, or unknown.

    A low lag is at most a tenth of the present one, or as usual in the best quarter of the time.
    """
    known = [(at, lag) for at, lag in zip(series.at, series.lag, strict=True) if lag is not None]
    if not known or not known[-1][1]:
        return None
    lags = sorted(lag for _, lag in known)
    low = max(0.1 * known[-1][1], min(lags[len(lags) // 4], 0.5 * known[-1][1]))
    before = [at for at, lag in known if lag <= low]
    return Onset(before[-1], is_earlier=False) if before else Onset(known[0][0], is_earlier=True)


def _fine(facts: GroupFacts) -> Iterator[Evidence]:
    if facts.group_type is None or not facts.is_healthy:
        return
    if facts.lag:
        text = f"it keeps up: {facts.lag:,} records behind, and the lag does not grow"
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
    behind = [at for at, lag in known if lag]
    since = [at for at, _ in known if not behind or at > behind[-1]]
    if not since:
        return ""
    return f"{' since' if behind else ', at least since'} {moment_text(since[0], facts.at)}"
