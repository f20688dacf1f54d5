"""The statuses, their causes and limits, and the verdicts about a group as a whole.

A verdict is a status, a cause, and a reason with numbers. `partition_status` has the rules for a
group in a partition; a group has the status of its worst partition, or one of those below.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final, NamedTuple

from coordinator_state.replay.groups import CLASSIC


class Status(str, Enum):
    """The statuses from best to worst; ERR is Burrow's status of a group.

    IDLE comes before OK, so a group with an idle and a busy partition is OK.
    """

    IDLE = "IDLE"
    OK = "OK"
    UNKNOWN = "UNKNOWN"
    EXPIRING = "EXPIRING"
    WARN = "WARN"
    REBALANCING_LOOP = "REBALANCING_LOOP"
    REWIND = "REWIND"
    STALL = "STALL"
    STOP = "STOP"
    PENDING = "PENDING"
    HANGING_TRANSACTION = "HANGING_TRANSACTION"
    TOPIC_GONE = "TOPIC_GONE"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    DATA_LOSS = "DATA_LOSS"
    ERR = "ERR"

    @property
    def rank(self) -> int:
        """The severity; greater is worse."""
        return _RANKS[self]


_RANKS: Final = {status: rank for rank, status in enumerate(Status)}
HEALTHY: Final = frozenset({Status.OK, Status.IDLE})
UNHEALTHY: Final = [status.value for status in Status if status not in HEALTHY]


class Cause(str, Enum):
    """The causes, the most direct ones first. The causes after CAUGHT_UP explain only a lag.

    A verdict has one of those that its rule finds. `explain` also finds the others.
    """

    TOPIC_DELETED = "topic_deleted"
    TOPIC_RECREATED = "topic_recreated"
    DATA_LOSS = "data_loss"
    OPEN_TRANSACTION = "open_transaction"
    ABORTED_TRANSACTIONS = "aborted_transactions"
    OFFSET_REWIND = "offset_rewind"
    OFFSET_RESET = "offset_reset"
    OFFSET_EXPIRED = "offset_expired"
    GROUP_DELETED = "group_deleted"
    OFFSET_DELETED = "offset_deleted"
    NO_MEMBERS = "no_members"
    DEPLOY = "deploy"
    REBALANCES = "rebalances"
    CAUGHT_UP = "caught_up"
    SAME_OFFSET = "same_offset"
    MEMBERS_LEFT = "members_left"
    NO_COMMITTED_OFFSET = "no_committed_offset"
    NO_OWNER = "no_owner"
    NO_COMMITS = "no_commits"
    PRODUCTION_RATE = "production_rate"
    ONE_PARTITION = "one_partition"
    CONSUMPTION_RATE = "consumption_rate"
    TRANSACTION_HUNG = "transaction_hung"
    STATUS = "status"


class Verdict(NamedTuple):
    """A status, the sentence that says why, and the lag where it matters.

    `cause` is None if the status has no cause of its own: for example, the group is well, reads too
    slowly, or its offset expires.
    """

    status: Status
    text: str
    cause: Cause | None = None
    lag_text: str = ""

    @property
    def reason(self) -> str:
        """The sentence and the lag."""
        return reason_of(self.text, self.lag_text)


def reason_of(text: str, lag_text: str) -> str:
    """The reason of a status: the sentence of its verdict, and the lag where it matters."""
    return "; ".join(part for part in (text, lag_text) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRules:
    """The limits of the rules; times in ms.

    Attributes:
        stale_after_ms: a status is UNKNOWN if the tables are further behind `__consumer_offsets`,
            and every group is UNKNOWN if nothing was written for longer. A healthy status is
            UNKNOWN if the log end was sampled longer ago.
        stop_after_ms: the minimum time without a commit for STOP.
        stop_intervals: STOP, STALL, PENDING and HANGING_TRANSACTION also need this many usual times
            of the group, or of the transactions of the log.
        pace_unknown_after_ms: UNKNOWN if nothing was committed for this time, and the usual time of
            the group is not known. It is the limit for STALL and PENDING then, and for STOP of a
            share group: its members have a minute at most to acknowledge records.
        stop_unknown_after_ms: the limit for STOP then.
        slow_after_ms: the minimum age of the first uncommitted record for STALL and WARN.
        aborting_after_ms: the minimum time since the last commit for STALL if all later commits
            were aborted.
        pending_after_ms: the minimum time for PENDING.
        silent_after_ms: WARN if members commit nothing at all in assigned partitions for this time;
            STOP after `pace_unknown_after_ms`.
        idle_after_ms: IDLE if a group without members has committed nothing for this time.
        hanging_after_ms: the longest time that brokers leave a transaction open, which is their
            `transaction.max.timeout.ms`. This is Kafka's default; `run` asks the brokers.
        expiring_within_ms: EXPIRING if the offset expires within this time.
        deleted_within_ms: WARN if uncommitted records will be deleted within this time.
        rebalances: this many rebalances within `rebalances_within_ms` are REBALANCING_LOOP.
        rebalances_within_ms: the window for `rebalances`.
    """

    stale_after_ms: int = 120_000
    stop_after_ms: int = 45_000
    stop_intervals: int = 3
    pace_unknown_after_ms: int = 300_000
    stop_unknown_after_ms: int = 3_600_000
    slow_after_ms: int = 45_000
    aborting_after_ms: int = 30_000
    pending_after_ms: int = 30_000
    silent_after_ms: int = 45_000
    idle_after_ms: int = 300_000
    hanging_after_ms: int = 900_000
    expiring_within_ms: int = 86_400_000
    deleted_within_ms: int = 3_600_000
    rebalances: int = 6
    rebalances_within_ms: int = 300_000


class ClientChanges(NamedTuple):
    """How often members of one client joined or left a group.

    A client is an instance id, a client id and a host. On one machine, members may share all three.

    Attributes:
        changes: the changes in the window of the rebalances.
        left: how often one left in a longer one, in which a loop goes round again.
        members: the members that it has now.
    """

    changes: int
    left: int
    members: int

    @property
    def replaced(self) -> int:
        """The changes of a deployment, which replaces each member once."""
        return self.changes if self.left <= self.members + 1 else 0


LOOP_WINDOWS: Final = 3
"""A loop goes round again in so many windows of the rebalances."""
_REBALANCES_OF_A_CHANGE: Final = 2
"""The cooperative protocol rebalances again after partitions were revoked."""


def rebalancing_loop(
    rebalances: int,
    clients: Iterable[ClientChanges],
    last_ago_ms: int,
    epoch: int | None,
    group_type: str | None,
    rules: StatusRules,
) -> Verdict | None:
    """Return the verdict for a group with too many rebalances, None if it has fewer.

    A deployment replaces each member once, however many there are. In a loop, the same clients join
    and leave again, or the group rebalances without any change of its members.
    """
    replaced = sum(client.replaced for client in clients)
    if rebalances - _REBALANCES_OF_A_CHANGE * replaced < rules.rebalances:
        return None
    name = "generation" if group_type == CLASSIC else "group epoch"
    return Verdict(
        Status.REBALANCING_LOOP,
        f"{rebalances} rebalances in {time_text(rules.rebalances_within_ms)}, the last "
        f"{time_text(last_ago_ms)} ago; {name} {epoch}",
        Cause.REBALANCES,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentMembers:
    """Members whose assigned partitions have neither a committed offset nor a known log end.

    Attributes:
        members: the number of such members.
        partitions: the number of such partitions.
        assigned_ms: the time since the last change of an assignment; None if unknown.
    """

    members: int
    partitions: int
    assigned_ms: int | None


def silent_verdict(facts: SilentMembers, rules: StatusRules) -> Verdict:
    """Return the verdict for members that may have something to commit."""
    who = f"{count_text(facts.members, 'member')} with {count_text(facts.partitions, 'partition')}"
    if facts.assigned_ms is None or facts.assigned_ms <= rules.silent_after_ms:
        return Verdict(Status.OK, f"no commit yet from {who}")
    silent = f"no commit from {who} for {time_text(facts.assigned_ms)}"
    return Verdict(Status.WARN, f"{silent}; the log ends are unknown")


def stale_tables(written_at: datetime, now: datetime, rules: StatusRules) -> Verdict | None:
    """Return the verdict for every group of tables that nobody writes, None if they are fresh."""
    if (now - written_at).total_seconds() * 1000 <= rules.stale_after_ms:
        return None
    since = moment_text(written_at, now)
    return Verdict(Status.UNKNOWN, f"nothing written since {since}; is `run` running?")


def count_text(number: int, noun: str) -> str:
    """Format a number of things.

    >>> count_text(1, "member"), count_text(1_250, "record")
    ('1 member', '1,250 records')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


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

    >>> [time_text(ms) for ms in (250, 4_210, 99_700, 312_000, 600_000, 7_200_000, 259_200_000)]
    ['0.25 s', '4.2 s', '100 s', '5.2 min', '10 min', '2 h', '3 d']
    """
    seconds = (ms or 0) / 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return _two_digits(seconds / size, unit)
    return _two_digits(seconds, "s")


def _two_digits(value: float, unit: str) -> str:
    return f"{value:.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"
