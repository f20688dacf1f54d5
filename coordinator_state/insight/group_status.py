"""The status of a group in a partition that it reads: one word, and a reason with numbers.

The statuses of Burrow have other rules here, which fix three weaknesses:

- STOP depends on the group's usual time between commits; after a single commit the limit is longer.
- REWIND holds until the group is back at its greatest recent offset, after any number of rewinds.
- Lag is the current lag, not the lag at the arrival of the last commit.

The first matching rule decides. Causes of a lag (lost data, a hanging transaction) come before its
symptoms (STOP, STALL, WARN).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final, NamedTuple

from coordinator_state.insight.lag import GONE


class Status(str, Enum):
    """The statuses from best to worst; ERR is Burrow's status of a group."""

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
        """The severity; greater is worse."""
        return _RANKS[self]


_RANKS: Final = {status: rank for rank, status in enumerate(Status)}


class Verdict(NamedTuple):
    """A status and its reason, in one sentence."""

    status: Status
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRules:
    """The limits of the rules; times in ms.

    Attributes:
        stale_after_ms: lag is UNKNOWN if the tables are further behind `__consumer_offsets`, and
            every group is UNKNOWN if nothing was written for longer.
        stop_after_ms: the minimum time without a commit for STOP.
        stop_intervals: STOP also needs this many usual times between commits without a commit.
        stop_unknown_after_ms: the limit for STOP if only one commit is known.
        slow_after_ms: the minimum age of the first uncommitted record for STALL and WARN.
        hanging_after_ms: the default of `transaction.max.timeout.ms`, the longest time that brokers
            leave a transaction open.
        expiring_within_ms: EXPIRING if the offset expires within this time.
        deleted_within_ms: WARN if uncommitted records will be deleted within this time.
        rebalances: this many rebalances within `rebalances_within_ms` are REBALANCING_LOOP.
        rebalances_within_ms: the window for `rebalances`.
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
    """The facts about a committed offset; unknown facts are None.

    The names are the columns of `group_lag`. `commits` counts the commits since `commits_from_ms`
    ago; `least_offset` and `greatest_offset` are their smallest and greatest committed offsets.
    `pending_age_ms` is the age of the oldest pending commit. `expires_in_ms` is the time until the
    offset expires. `behind_ms` is how far the tables are behind `__consumer_offsets`; ages and time
    lag are those at that earlier time.
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
    """Return the status of a group in one partition."""
    if facts.topic_state == GONE:
        return Verdict(
            Status.TOPIC_GONE,
            f"the topic was deleted; committed offset {facts.committed_offset} remains",
        )
    if facts.pending_age_ms is not None and facts.pending_age_ms > rules.hanging_after_ms:
        return Verdict(
            Status.HANGING_TRANSACTION,
            f"a transactional commit has been pending for {time_text(facts.pending_age_ms)}",
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
            return Verdict(Status.OK, "caught up")
        return Verdict(Status.IDLE, "caught up; no members")
    return Verdict(Status.OK, _lag_text(facts, facts.lag))


def _unknown(facts: PartitionFacts, rules: StatusRules) -> str | None:
    """Return the reason why the lag is unknown or stale, None if it is neither."""
    if facts.lag is None:
        return facts.time_lag_unknown or "the lag is unknown"
    if facts.behind_ms is None:
        return "it is unknown how far the tables are behind __consumer_offsets"
    if facts.behind_ms > rules.stale_after_ms:
        return f"the tables are {time_text(facts.behind_ms)} behind __consumer_offsets"
    return None


def _behind(facts: PartitionFacts, lag: int, rules: StatusRules) -> Verdict | None:
    """Return the problem of a group with lag, None if it has none."""
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
    # Without a time lag, the records are older than the first sample. The age of the last commit
    # replaces it.
    oldest_ms = facts.commit_age_ms if time_lag_ms is None else time_lag_ms
    if min(facts.commit_age_ms, oldest_ms) > stop_after_ms:
        pace = f", usually every {time_text(interval_ms)}" if facts.commits > 1 else ""
        return Verdict(
            Status.STOP,
            f"no commit for {time_text(facts.commit_age_ms)}{pace}; {_lag_text(facts, lag)}",
        )
    if facts.greatest_offset > facts.committed_offset:
        return Verdict(
            Status.REWIND,
            f"went back from {facts.greatest_offset} in the last "
            f"{time_text(facts.commits_from_ms)} and is at {facts.committed_offset}; "
            f"{_lag_text(facts, lag)}",
        )
    # Records stay uncommitted between two commits, even in a fast group. The usual time between
    # commits may be unknown yet.
    pace_ms = max(interval_ms, facts.commit_age_ms)
    is_slow = oldest_ms > max(rules.slow_after_ms, 2 * pace_ms)
    is_stuck = facts.commits > 1 and facts.least_offset == facts.greatest_offset
    if is_slow and is_stuck and facts.commit_age_ms < oldest_ms:
        return Verdict(
            Status.STALL,
            f"{facts.commits} commits in {time_text(facts.commits_from_ms)}, all at offset "
            f"{facts.committed_offset}; {_lag_text(facts, lag)}",
        )
    if oldest_ms > rules.slow_after_ms and _is_deleted_first(facts, rules):
        left = time_text(facts.retention_margin_ms)
        return Verdict(Status.WARN, f"records will be deleted in {left}; {_lag_text(facts, lag)}")
    commits, produces = facts.commit_rate_per_s, facts.produce_rate_per_s
    if is_slow and commits is not None and produces is not None and commits < produces:
        return Verdict(
            Status.WARN,
            f"reads {commits:.3g} records/s, producers write {produces:.3g} records/s; "
            f"{_lag_text(facts, lag)}",
        )
    return None


def _is_deleted_first(facts: PartitionFacts, rules: StatusRules) -> bool:
    """Whether uncommitted records will be deleted soon, before the group catches up."""
    left_ms = facts.retention_margin_ms
    if left_ms is None or left_ms >= rules.deleted_within_ms:
        return False
    return facts.time_to_catch_up_ms is None or facts.time_to_catch_up_ms > left_ms


def rebalancing_loop(
    rebalances: int, last_ago_ms: int, epoch: int | None, rules: StatusRules
) -> Verdict | None:
    """Return the verdict for a group with too many rebalances, None if it has fewer."""
    if rebalances < rules.rebalances:
        return None
    return Verdict(
        Status.REBALANCING_LOOP,
        f"{rebalances} rebalances in {time_text(rules.rebalances_within_ms)}, the last "
        f"{time_text(last_ago_ms)} ago; generation or epoch {epoch}",
    )


def stale_tables(written_at: datetime, now: datetime, rules: StatusRules) -> Verdict | None:
    """Return the verdict for every group of tables that nobody writes, None if they are fresh."""
    if (now - written_at).total_seconds() * 1000 <= rules.stale_after_ms:
        return None
    since = moment_text(written_at, now)
    return Verdict(Status.UNKNOWN, f"nothing written since {since}; is `run` running?")


def _lag_text(facts: PartitionFacts, lag: int) -> str:
    oldest = "" if facts.time_lag_ms is None else f", oldest {time_text(facts.time_lag_ms)}"
    return f"{lag} records behind{oldest}"


def moment_text(moment: datetime, now: datetime) -> str:
    """Format a moment in UTC for people, with its date if that differs from the date of `now`.

    >>> from datetime import timezone
    >>> now = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
    >>> moment_text(now.replace(hour=7, minute=5), now), moment_text(now.replace(day=9), now)
    ('07:05:00 UTC', '2026-11-09 12:00:00 UTC')
    """
    date = "" if moment.date() == now.date() else f"{moment:%Y-%m-%d} "
    return f"{date}{moment:%H:%M:%S} UTC"


def time_text(ms: float | None) -> str:
    """Format a time for people.

    >>> [time_text(ms) for ms in (250, 4_210, 99_700, 312_000, 7_200_000, 259_200_000)]
    ['0.25 s', '4.2 s', '100 s', '312 s', '2 h', '3 d']
    """
    seconds = (ms or 0) / 1000
    for unit, size, least in (("d", 86_400, 2 * 86_400), ("h", 3_600, 2 * 3_600)):
        if seconds >= least:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
