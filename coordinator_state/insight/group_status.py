"""What state a group is in with a partition that it reads: one word, and one sentence with numbers.

The statuses of Burrow are there by other rules, which repair three weaknesses. STOP is measured by
the group's own pace, and a group that has committed once is given time. Any offset that the group
has been past and is not back at is a REWIND, however often it went back. Lag is that of now and
not that of the last commit's arrival.

The worst comes first: what explains a lag (lost data, a transaction that hangs) is told before what
the lag looks like (STOP, STALL, WARN).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from coordinator_state.insight.lag import GONE


class Status(str, Enum):
    """A status, from well to worst; ERR is Burrow's of groups."""

    OK = "OK"
    IDLE = "IDLE"
    UNKNOWN = "UNKNOWN"
    EXPIRING = "EXPIRING"
    WARN = "WARN"
    REBALANCING_LOOP = "REBALANCING_LOOP"
    REWIND = "REWIND"
    STALL = "STALL"
    STOP = "STOP"
    HANGING_TRANSACTION = "HANGING_TRANSACTION"
    TOPIC_GONE = "TOPIC_GONE"
    DATA_LOSS = "DATA_LOSS"
    ERR = "ERR"

    @property
    def rank(self) -> int:
        """How bad it is: greater is worse."""
        return _RANKS[self]


_RANKS: Final = {status: rank for rank, status in enumerate(Status)}


class Verdict(NamedTuple):
    """A status and why, in one sentence."""

    status: Status
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRules:
    """The limits; times in ms.

    Where the tables are further behind their log than `stale_after_ms`, nothing is said of lag.
    A group that has not committed for `stop_intervals` times the time between its commits has
    stopped, at least after `stop_after_ms`; one of which only one commit is known, after
    `stop_unknown_after_ms`. `hanging_after_ms` is the default of `transaction.max.timeout.ms`, the
    longest that brokers leave a transaction open. `rebalances` in `rebalances_within_ms` are a
    loop.
    """

    stale_after_ms: int = 120_000
    stop_after_ms: int = 60_000
    stop_intervals: int = 3
    stop_unknown_after_ms: int = 300_000
    slow_after_ms: int = 60_000
    hanging_after_ms: int = 900_000
    expiring_within_ms: int = 86_400_000
    deleted_within_ms: int = 3_600_000
    rebalances: int = 6
    rebalances_within_ms: int = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """What is known of a committed offset; None where it is not.

    The names are those of `group_lag`. `commits` counts those of the last minutes, that is since
    `commits_from_ms` ago, `least_offset` and `greatest_offset` are the least and the greatest of
    them. `pending_age_ms` is that of the oldest transactional offset that waits, `expires_in_ms`
    the time until the offset expires. `behind_ms` is how far the tables are behind the log of
    commits: ages and time lag are those of then.
    """

    has_members: bool
    topic_state: str | None
    committed_offset: int
    log_start_offset: int | None
    last_stable_offset: int | None
    log_end_offset: int | None
    lag: int | None
    lag_to_last_stable: int | None
    data_lost: int | None
    time_lag_ms: int | None
    time_lag_unknown: str | None
    retention_margin_ms: int | None
    commit_rate_per_s: float | None
    produce_rate_per_s: float | None
    time_to_catch_up_ms: int | None
    commit_age_ms: int
    commits: int
    commits_from_ms: int
    least_offset: int
    greatest_offset: int
    pending_age_ms: int | None
    expires_in_ms: int | None
    behind_ms: int | None


def partition_status(facts: PartitionFacts, rules: StatusRules) -> Verdict:
    """The status of a group with one partition."""
    if facts.topic_state == GONE:
        return Verdict(
            Status.TOPIC_GONE, f"the topic is gone, offset {facts.committed_offset} is left"
        )
    if facts.pending_age_ms is not None and facts.pending_age_ms > rules.hanging_after_ms:
        return Verdict(
            Status.HANGING_TRANSACTION,
            "an offset has waited for the end of its transaction for "
            f"{time_text(facts.pending_age_ms)}",
        )
    unknown = _unknown(facts, rules)
    if unknown is not None:
        return Verdict(Status.UNKNOWN, unknown)
    if facts.data_lost:
        return Verdict(
            Status.DATA_LOSS,
            f"{facts.data_lost} records were deleted before they were read: committed "
            f"{facts.committed_offset}, log start {facts.log_start_offset}",
        )
    if facts.lag:
        found = _behind(facts, facts.lag, rules)
        if found is not None:
            return found
    if facts.expires_in_ms is not None and facts.expires_in_ms < rules.expiring_within_ms:
        due = "is due to expire" if facts.expires_in_ms <= 0 else "expires"
        when = "" if facts.expires_in_ms <= 0 else f" in {time_text(facts.expires_in_ms)}"
        return Verdict(Status.EXPIRING, f"offset {facts.committed_offset} {due}{when}")
    if not facts.lag:
        if facts.has_members:
            return Verdict(Status.OK, "all is read")
        return Verdict(Status.IDLE, "all is read, and the group has no members")
    return Verdict(Status.OK, _waiting(facts, facts.lag))


def _unknown(facts: PartitionFacts, rules: StatusRules) -> str | None:
    """Why nothing can be said of lag, None where something can."""
    if facts.lag is None:
        return facts.time_lag_unknown or "the log is not known"
    if facts.behind_ms is None:
        return "how far the tables are behind the log of commits is not known"
    if facts.behind_ms > rules.stale_after_ms:
        return f"the tables are {time_text(facts.behind_ms)} behind the log of commits"
    return None


def _behind(facts: PartitionFacts, lag: int, rules: StatusRules) -> Verdict | None:
    """What is the matter with a group that is behind, None for nothing."""
    time_lag_ms = facts.time_lag_ms
    if facts.lag_to_last_stable == 0 and (time_lag_ms or 0) > rules.hanging_after_ms:
        return Verdict(
            Status.HANGING_TRANSACTION,
            f"a transaction in the log has been open for {time_text(time_lag_ms)}: last stable "
            f"offset {facts.last_stable_offset}, log end {facts.log_end_offset}",
        )
    interval_ms = facts.commits_from_ms - facts.commit_age_ms
    interval_ms = interval_ms // (facts.commits - 1) if facts.commits > 1 else 0
    stop_after_ms = max(rules.stop_after_ms, rules.stop_intervals * interval_ms)
    if facts.commits < 2:
        stop_after_ms = rules.stop_unknown_after_ms
    # Records that were there before the first sample have waited since then at least.
    waited_ms = facts.commit_age_ms if time_lag_ms is None else time_lag_ms
    if min(facts.commit_age_ms, waited_ms) > stop_after_ms:
        pace = f", usually every {time_text(interval_ms)}" if facts.commits > 1 else ""
        return Verdict(
            Status.STOP,
            f"no commit for {time_text(facts.commit_age_ms)}{pace}; {_waiting(facts, lag)}",
        )
    if facts.greatest_offset > facts.committed_offset:
        return Verdict(
            Status.REWIND,
            f"went back from {facts.greatest_offset} in the last "
            f"{time_text(facts.commits_from_ms)} and is at {facts.committed_offset}; "
            f"{_waiting(facts, lag)}",
        )
    # Between two commits records wait, however fast they are read; the pace may not be known yet.
    pace_ms = max(interval_ms, facts.commit_age_ms)
    is_slow = waited_ms > max(rules.slow_after_ms, 2 * pace_ms)
    is_still = facts.commits > 1 and facts.least_offset == facts.greatest_offset
    if is_slow and is_still and facts.commit_age_ms < waited_ms:
        return Verdict(
            Status.STALL,
            f"{facts.commits} commits in {time_text(facts.commits_from_ms)}, all at offset "
            f"{facts.committed_offset}; {_waiting(facts, lag)}",
        )
    if waited_ms > rules.slow_after_ms and _is_deleted_first(facts, rules):
        left = time_text(facts.retention_margin_ms)
        return Verdict(Status.WARN, f"records will be deleted in {left}; {_waiting(facts, lag)}")
    commits, produces = facts.commit_rate_per_s, facts.produce_rate_per_s
    if is_slow and commits is not None and produces is not None and commits < produces:
        return Verdict(
            Status.WARN,
            f"{commits:.3g} records/s are read and {produces:.3g} written; {_waiting(facts, lag)}",
        )
    return None


def _is_deleted_first(facts: PartitionFacts, rules: StatusRules) -> bool:
    """Whether records are deleted soon, and before the group catches up."""
    left_ms = facts.retention_margin_ms
    if left_ms is None or left_ms >= rules.deleted_within_ms:
        return False
    return facts.time_to_catch_up_ms is None or facts.time_to_catch_up_ms > left_ms


def rebalancing_loop(
    rebalances: int, last_ago_ms: int, epoch: int | None, rules: StatusRules
) -> Verdict | None:
    """Whether a group goes from one rebalance to the next, None where it does not."""
    if rebalances < rules.rebalances:
        return None
    return Verdict(
        Status.REBALANCING_LOOP,
        f"{rebalances} rebalances in {time_text(rules.rebalances_within_ms)}, the last "
        f"{time_text(last_ago_ms)} ago; generation or epoch {epoch}",
    )


def _waiting(facts: PartitionFacts, lag: int) -> str:
    since = "" if facts.time_lag_ms is None else f", the first for {time_text(facts.time_lag_ms)}"
    return f"{lag} records wait{since}"


def time_text(ms: float | None) -> str:
    """A time as people say it.

    >>> [time_text(ms) for ms in (250, 4_210, 99_700, 312_000, 7_200_000, 259_200_000)]
    ['0.25 s', '4.2 s', '100 s', '312 s', '2 h', '3 d']
    """
    seconds = (ms or 0) / 1000
    for unit, size, least in (("d", 86_400, 2 * 86_400), ("h", 3_600, 2 * 3_600)):
        if seconds >= least:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
