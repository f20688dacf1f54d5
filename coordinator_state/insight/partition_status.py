"""The status of a group in a partition that it reads.

The statuses of Burrow have other rules here, which fix its weaknesses:

- STOP depends on the group's own pace (`coordinator_state.insight.pace`). While that is not known,
  a group that commits nothing is UNKNOWN.
- REWIND holds until the group is back at its greatest recent offset, after any number of rewinds.
- Lag is the current lag, not the lag at the arrival of the last commit.
- Aborted and pending commits are evidence: a group may be active and get nowhere.

The first matching rule decides. Causes of a lag (lost data, an open transaction, aborted commits)
come before its symptoms (STOP, WARN).
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final

from coordinator_state.insight.group_status import (
    Cause,
    Status,
    StatusRules,
    Verdict,
    count_text,
    moment_text,
    time_text,
)
from coordinator_state.insight.lag import GONE
from coordinator_state.insight.lag_text import details_text, lag_text, oldest_text, rate_text
from coordinator_state.insight.pace import ENOUGH
from coordinator_state.insight.partition_facts import PartitionFacts
from coordinator_state.replay.groups import SHARE

_TRANSACTION_TIMEOUT_MS: Final = 60_000
"""The default of producers for `transaction.timeout.ms`."""
_SLOWEST_FILE: Final = 8
"""If producers write less, a file may take so many times longer until it is full."""
_FILE_LATE_MS: Final = 30 * 60_000
"""A file may be late by so much at most."""
_FILE_SHARE: Final = 4
"""A file may have a quarter more records than usual."""
_RUNS_WITHIN_MS: Final = 86_400_000
"""Most jobs run once a day at least."""


def partition_status(facts: PartitionFacts, rules: StatusRules) -> Verdict:
    """Return the status of a group in one partition."""
    if _is_stale(facts, rules):
        # Later records may say anything, also that the offset or the topic is gone.
        return Verdict(Status.UNKNOWN, _stale_text(facts))
    if facts.topic_state == GONE:
        return Verdict(Status.TOPIC_GONE, _gone_text(facts), Cause.TOPIC_DELETED)
    if facts.unsubscribed_expires_in_ms is not None:
        return Verdict(Status.OK, _unsubscribed_text(facts.unsubscribed_expires_in_ms))
    if _is_hanging(facts, rules):
        hanging = Verdict(Status.HANGING_TRANSACTION, _held_text(facts), Cause.OPEN_TRANSACTION)
        return _with_lag(hanging, facts)
    if facts.lag is None:
        return _without_lag(facts, rules)
    if facts.is_out_of_range:
        return Verdict(
            Status.OUT_OF_RANGE,
            f"{_recreated_text(facts) or f'committed {facts.committed_offset:,}'}, but the log "
            f"ends at {facts.log_end_offset:,}: a consumer that starts there resets it "
            "(auto.offset.reset)",
            None if facts.recreated_at_ms is None else Cause.TOPIC_RECREATED,
        )
    if facts.data_lost and not _were_read_before(facts):
        return Verdict(
            Status.DATA_LOSS,
            f"{count_text(facts.data_lost, 'record')} deleted before being read: "
            f"{'start offset' if facts.group_type == SHARE else 'committed'} "
            f"{facts.committed_offset:,}, log start {facts.log_start_offset:,}",
            Cause.DATA_LOSS,
        )
    if facts.lag:
        verdict = _behind(facts, rules)
        if verdict is not None:
            return verdict
    return _healthy(facts, rules)


def _were_read_before(facts: PartitionFacts) -> bool:
    """Whether the group had read all deleted records before it went back."""
    read_to = facts.read_before_to
    return read_to is not None and (facts.log_start_offset or 0) <= read_to


def _recreated_text(facts: PartitionFacts) -> str:
    """Say that the topic was created again, and the group has not committed since; or nothing."""
    if facts.recreated_at_ms is None:
        return ""
    text = f"the topic was deleted and created again at {_moment(facts.recreated_at_ms, facts)}"
    if facts.committed_offset is None:
        return f"{text}; no committed offset since"
    return f"{text}; {_offset_text(facts)} is of the deleted topic"


def _gone_text(facts: PartitionFacts) -> str:
    gone = "the topic does not exist"
    if facts.gone_at_ms is not None:
        gone = f"the topic was deleted by {_moment(facts.gone_at_ms, facts)}"
    if facts.uncommitted_ms is None:
        return f"{gone}; {_offset_text(facts)} remains"
    return f"{gone}; a member {'has it assigned' if facts.has_member else 'subscribes to it'}"


def _healthy(facts: PartitionFacts, rules: StatusRules) -> Verdict:
    """Return the verdict for a group that reads as fast as it needs to."""
    if facts.expires_in_ms is not None and facts.expires_in_ms < rules.expiring_within_ms:
        due = "is due to expire" if facts.expires_in_ms <= 0 else "expires"
        when = "" if facts.expires_in_ms <= 0 else f" in {time_text(facts.expires_in_ms)}"
        return Verdict(Status.EXPIRING, f"offset {facts.committed_offset:,} {due}{when}")
    if facts.sample_age_ms is not None and facts.sample_age_ms > rules.stale_after_ms:
        return Verdict(
            Status.UNKNOWN, f"the log end was sampled {time_text(facts.sample_age_ms)} ago"
        )
    if facts.lag:
        text = "" if facts.uncommitted_ms is None else "no commit yet"
        waited_ms = _waited_ms(facts)
        is_late = waited_ms > _usual_stop_ms(facts, rules)
        if is_late and waited_ms <= (facts.rest_ms or 0):
            silent = f"no commit for {time_text(_silent_ms(facts))}"
            text = f"{silent}; it usually rests for up to {time_text(facts.rest_ms)}"
        elif is_late and facts.usual_return_ms is not None:
            usual = time_text(facts.usual_return_ms)
            text = f"the group has no members; they usually come back within {usual}"
        if facts.recreated_at_ms is not None:
            recreated = _recreated_text(facts)
            return Verdict(Status.OK, recreated, Cause.TOPIC_RECREATED, lag_text(facts))
        return Verdict(Status.OK, text, lag_text=lag_text(facts))
    if not facts.has_members and facts.commit_age_ms > _limit_ms(
        rules.idle_after_ms, facts.usual_commit_ms, rules
    ):
        return Verdict(Status.IDLE, "caught up; no members")
    return well_status(
        0, 0, has_members=facts.has_members, is_uncommitted=facts.uncommitted_ms is not None
    )


def well_status(
    lag: int, time_lag_ms: int, *, has_members: bool, is_uncommitted: bool = False
) -> Verdict:
    """Return the verdict for a group that no rule but the last applies to: it is in use and well.

    It needs few facts, because most partitions are well.
    """
    if is_uncommitted:
        return Verdict(Status.OK, "no commit yet, and no new records")
    if lag:
        behind = f"{lag:,} behind" + details_text(time_lag_ms, None, None)
        return Verdict(Status.OK, "", lag_text=behind)
    return Verdict(Status.OK, "caught up" if has_members else "caught up; the group has no members")


def _limit_ms(least_ms: int, usual_ms: int | None, rules: StatusRules) -> int:
    """Return a limit of at least some usual times."""
    return max(least_ms, rules.stop_intervals * (usual_ms or 0))


def _without_lag(facts: PartitionFacts, rules: StatusRules) -> Verdict:
    """Return the verdict if the lag is unknown."""
    if _is_held(facts, rules):
        return Verdict(Status.PENDING, _held_text(facts), Cause.OPEN_TRANSACTION)
    if facts.committed_offset is None and facts.uncommitted_ms is None:
        return Verdict(Status.OK, "no record was acknowledged yet")
    return Verdict(Status.UNKNOWN, facts.time_lag_unknown or "the lag is unknown")


def _stale_text(facts: PartitionFacts) -> str:
    if facts.behind_ms is not None:
        return f"the tables are {time_text(facts.behind_ms)} behind {facts.log_topic}"
    if facts.lag is None and facts.topic_state is None:
        return facts.time_lag_unknown or "the lag is unknown"
    return (
        f"the delay of the tables is unknown: the log end of {facts.log_topic} has no recent sample"
    )


def _unsubscribed_text(expires_in_ms: int) -> str:
    when = "is due to expire" if expires_in_ms <= 0 else f"expires in {time_text(expires_in_ms)}"
    return f"no member subscribes to the topic any more; the offset {when}"


def _offset_text(facts: PartitionFacts) -> str:
    if facts.committed_offset is None:
        return "the share partition"
    name = "start" if facts.group_type == SHARE else "committed"
    return f"{name} offset {facts.committed_offset:,}"


def _is_stale(facts: PartitionFacts, rules: StatusRules) -> bool:
    return facts.behind_ms is None or facts.behind_ms > rules.stale_after_ms


def _behind(facts: PartitionFacts, rules: StatusRules) -> Verdict | None:
    """Return the problem of a group with lag, None if it has none."""
    problem_rules = [_open_transaction, _aborting, _stop, _rewind, _same_offset, _slow, _no_pace]
    if facts.uncommitted_ms is not None:
        problem_rules = [_open_transaction, _uncommitted]
    if _is_at_last_stable(facts) and not facts.aborted:
        # It has nothing to read until the transaction ends.
        problem_rules = [_open_transaction]
    for rule in problem_rules:
        problem = rule(facts, rules)
        if problem is not None:
            return _with_lag(problem, facts)
    return None


def _with_lag(verdict: Verdict, facts: PartitionFacts) -> Verdict:
    return verdict._replace(lag_text=lag_text(facts, facts.growth_per_s))


def _open_transaction(facts: PartitionFacts, rules: StatusRules) -> Verdict | None:
    """An open transaction holds the group's commits, or the records that it would read next."""
    if _is_held(facts, rules):
        return Verdict(Status.PENDING, _held_text(facts), Cause.OPEN_TRANSACTION)
    oldest_ms = facts.time_lag_at_least_ms or 0
    hanging_after_ms = _limit_ms(rules.hanging_after_ms, facts.usual_hold_ms, rules)
    least_ms = rules.pending_after_ms
    if facts.holds < ENOUGH:
        least_ms = max(least_ms, _TRANSACTION_TIMEOUT_MS)
    pending_after_ms = min(_limit_ms(least_ms, facts.usual_hold_ms, rules), hanging_after_ms)
    # Where one transaction follows another, an open one is no news.
    is_unknown = facts.is_often_held and facts.holds < ENOUGH
    if is_unknown:
        pending_after_ms = min(rules.hanging_after_ms, rules.stop_unknown_after_ms)
        hanging_after_ms = max(rules.hanging_after_ms, rules.stop_unknown_after_ms)
    if not _is_at_last_stable(facts) or oldest_ms < pending_after_ms:
        return None
    text = f"a transaction in the log has been open for {oldest_text(facts)}"
    if is_unknown and oldest_ms <= rules.stop_unknown_after_ms:
        text += "; the usual time of its transactions is not known yet"
        return Verdict(Status.UNKNOWN, text, Cause.OPEN_TRANSACTION)
    is_hanging = oldest_ms > hanging_after_ms and not facts.is_hold_two_phase_commit
    if facts.is_hold_two_phase_commit:
        text += ", prepared or open (2PC)"
    return Verdict(
        Status.HANGING_TRANSACTION if is_hanging else Status.PENDING,
        f"{text}: last stable offset {facts.last_stable_offset:,}, log end "
        f"{facts.log_end_offset:,}",
        Cause.OPEN_TRANSACTION,
    )


def _is_at_last_stable(facts: PartitionFacts) -> bool:
    """Whether the group has read up to an open transaction; `read_uncommitted` groups go on."""
    if facts.uncommitted_ms is not None:
        return facts.lag_to_last_stable == 0
    # Only aborted records may be left before it.
    return facts.lag_to_last_stable == 0 and (facts.committed_offset or 0) <= (
        facts.last_stable_offset or 0
    )


def _uncommitted(facts: PartitionFacts, rules: StatusRules) -> Verdict | None:
    """The group reads the partition, has never committed there, and there are records."""
    silent_ms = facts.commit_age_ms
    text = _recreated_text(facts) or "no committed offset"
    # A member that has the partition may commit soon.
    waited_ms = min(silent_ms, facts.time_lag_at_least_ms or 0)
    status = Status.WARN
    if facts.has_member:
        if waited_ms <= _limit_ms(rules.silent_after_ms, facts.usual_commit_ms, rules):
            return None
        # A member polls again only after it has processed the records of its first poll.
        stop_after_ms = _limit_ms(rules.pace_unknown_after_ms, facts.usual_commit_ms, rules)
        stop_after_ms = max(stop_after_ms, facts.max_poll_ms or 0, 2 * (facts.rest_in_turn_ms or 0))
        status = Status.STOP if waited_ms > stop_after_ms else Status.WARN
        text += f" for {time_text(silent_ms)}" if facts.recreated_at_ms is None else ""
        text += ", although a member has the partition"
    elif facts.has_members:
        text += ", and no member has the partition"
    else:
        text += ", and the group has no members"
    if facts.committed_offset is not None:
        text += ": a consumer that starts there skips the records before it"
    elif not facts.is_lag_lower_bound:
        name = "share.auto.offset.reset" if facts.group_type == SHARE else "auto.offset.reset"
        text += f": a start with {name}=latest skips its records"
    is_recreated = facts.recreated_at_ms is not None
    cause = Cause.TOPIC_RECREATED if is_recreated else Cause.NO_COMMITTED_OFFSET
    return Verdict(status, text, cause)


def _is_held(facts: PartitionFacts, rules: StatusRules) -> bool:
    """Whether a transaction holds commits for longer than the group usually takes to commit.

    A group that goes on to commit without the transaction is not held.
    """
    if facts.held_ms is None:
        return False
    is_known = facts.commit_waits >= ENOUGH
    least_ms = rules.pending_after_ms if is_known else rules.pace_unknown_after_ms
    limit_ms = _limit_ms(least_ms, facts.usual_commit_ms, rules)
    return min(facts.held_ms, facts.commit_age_ms) > limit_ms


def _is_hanging(facts: PartitionFacts, rules: StatusRules) -> bool:
    """Whether a transaction that holds commits will not end in time.

    Its coordinator aborts it after its own time-out, or after `transaction.max.timeout.ms`, and
    never a two-phase commit.
    """
    if facts.held_ms is None:
        return False
    if facts.is_marker_lost:
        return facts.held_ms > rules.pending_after_ms
    if facts.is_two_phase_commit:
        return False
    if facts.overdue_ms is not None:
        return facts.overdue_ms > rules.pending_after_ms
    return facts.held_ms > _limit_ms(rules.hanging_after_ms, facts.usual_commit_ms, rules)


def _held_text(facts: PartitionFacts) -> str:
    producer, name = f"producer {facts.pending_producer_id}", facts.pending_transactional_id
    client = facts.pending_client_id and f"client {facts.pending_client_id}"
    more = ", ".join(filter(None, [name and producer, client]))
    owner = f"{name or producer}{more and f' ({more})'}"
    held = f"commits held for {time_text(facts.held_ms)} by"
    if facts.is_marker_lost:
        return f"{held} a transaction of {owner} that its coordinator has ended: abort it by hand"
    if facts.is_two_phase_commit:
        return f"{held} a prepared or open transaction (2PC) of {owner}"
    return f"{held} an open transaction of {owner}"


def _aborting(facts: PartitionFacts, rules: StatusRules) -> Verdict | None:
    """The group commits, and every transaction ends with ABORT."""
    if facts.aborted < 2 or facts.aborted_from_ms is None or facts.aborted_ago_ms is None:
        return None
    silent_ms = facts.aborted_ago_ms
    if facts.commit_age_ms <= rules.aborting_after_ms or silent_ms > _stop_after_ms(facts, rules):
        return None
    return Verdict(
        Status.STALL,
        f"{count_text(facts.aborted, 'commit')} in the last {time_text(facts.aborted_from_ms)}, "
        f"all aborted; committed offset unchanged since "
        f"{_moment(facts.at_ms - facts.commit_age_ms, facts)}",
        Cause.ABORTED_TRANSACTIONS,
    )


def _stop_after_ms(facts: PartitionFacts, rules: StatusRules) -> int:
    # Members that come back when there are records do so soon.
    return_ms = rules.stop_intervals * (facts.usual_return_ms or 0)
    return max(
        *(_usual_stop_ms(facts, rules), facts.rest_ms or 0, 2 * (facts.rest_in_turn_ms or 0)),
        min(return_ms, rules.pace_unknown_after_ms),
    )


def _usual_stop_ms(facts: PartitionFacts, rules: StatusRules) -> int:
    """Return the limit of STOP for a group that does not rest."""
    if not facts.commit_waits and not facts.aborted:
        # The members of a share group have a minute at most to acknowledge a record.
        is_share = facts.group_type == SHARE
        return rules.pace_unknown_after_ms if is_share else rules.stop_unknown_after_ms
    is_known = facts.commit_waits >= ENOUGH or bool(facts.aborted)
    least_ms = rules.stop_after_ms if is_known else rules.pace_unknown_after_ms
    return _limit_ms(least_ms, facts.usual_commit_ms, rules)


def _stop(facts: PartitionFacts, rules: StatusRules) -> Verdict | None:
    """The group has stopped committing."""
    silent_ms = _silent_ms(facts)
    if _waited_ms(facts) <= _stop_after_ms(facts, rules) or _is_filling(facts, rules):
        return None
    text, cause = f"no commit for {time_text(silent_ms)}", Cause.NO_COMMITS
    if _waited_ms(facts) <= (facts.only_rest_ms or 0):
        return Verdict(Status.UNKNOWN, f"{text}; {_only_rest_text(facts.only_rest_ms)}", cause)
    if facts.ended_at_ms is not None:
        return _ended(facts, facts.ended_at_ms, rules)
    if facts.usual_commit_ms is not None:
        is_rest = (facts.rest_ms or 0) > _usual_stop_ms(facts, rules)
        usual_ms = facts.rest_ms if is_rest else facts.usual_commit_ms
        text += f", usually within {time_text(usual_ms)}"
    if facts.aborted:
        text += f"; {count_text(facts.aborted, 'commit')} aborted before that"
    if facts.held_ms is not None:
        text += f"; {_held_text(facts)}"
    if not facts.has_members:
        text = f"the group has no members; {text}"
        # A consumer with assign() is no member.
        cause = cause if facts.is_simple else Cause.NO_MEMBERS
    elif facts.is_left_out:
        text, cause = f"no member has the partition; {text}", Cause.NO_OWNER
    rewind = _rewind(facts, rules)
    if rewind is not None:
        # An operator stops the members before a reset.
        return rewind._replace(status=Status.STOP, text=f"{rewind.text}; {text}")
    return Verdict(Status.STOP, text, cause)


def _is_filling(facts: PartitionFacts, rules: StatusRules) -> bool:
    """Whether a sink with a slow pace may wait for more records: it commits full files."""
    usual_ms, records = facts.usual_commit_ms or 0, facts.usual_move_records or 0
    latest_ms = min(_SLOWEST_FILE * usual_ms, _usual_stop_ms(facts, rules) + _FILE_LATE_MS)
    return (
        facts.has_member
        and usual_ms > rules.stop_after_ms
        and _waited_ms(facts) <= latest_ms
        and _FILE_SHARE * (facts.lag or 0) <= (_FILE_SHARE + 1) * records
    )


def _ended(facts: PartitionFacts, ended_at_ms: int, rules: StatusRules) -> Verdict | None:
    """A job has ended, or a new group was shut down; nobody knows when it runs again."""
    deleted = _deleted_first(facts, rules)
    if deleted is not None:
        return deleted
    status = Status.UNKNOWN if facts.at_ms - ended_at_ms <= _RUNS_WITHIN_MS else Status.WARN
    return Verdict(
        status,
        f"the members left at {_moment(ended_at_ms, facts)}, after they had read everything; when "
        "they come back is not known yet",
        Cause.NO_MEMBERS,
    )


def _only_rest_text(rest_ms: int | None) -> str:
    return f"it has rested like this before, so it may rest for up to {time_text(rest_ms)}"


def _silent_ms(facts: PartitionFacts) -> int:
    """Return the time since the last attempt to commit."""
    aborted_ago_ms = facts.aborted_ago_ms
    return (
        facts.commit_age_ms if aborted_ago_ms is None else min(facts.commit_age_ms, aborted_ago_ms)
    )


def _waited_ms(facts: PartitionFacts) -> int:
    """Return the time for which the group has committed nothing although there is a record."""
    # Without a time lag, the records are older than the first sample. The age of the last commit
    # replaces it.
    oldest_ms = facts.commit_age_ms if facts.time_lag_ms is None else facts.time_lag_ms
    return min(_silent_ms(facts), oldest_ms)


def _no_pace(facts: PartitionFacts, rules: StatusRules) -> Verdict | None:
    """Nobody knows whether the group has stopped committing."""
    if facts.commit_waits or facts.aborted or _waited_ms(facts) <= rules.pace_unknown_after_ms:
        return None
    silent = f"no commit for {time_text(_silent_ms(facts))}"
    text = f"{silent}; the usual time between its commits is not known yet"
    return Verdict(Status.UNKNOWN, text, Cause.NO_COMMITS)


def _rewind(facts: PartitionFacts, _rules: StatusRules) -> Verdict | None:
    """The group was further recently than it is now."""
    if facts.rewound_from is None or facts.rewound_from <= (facts.committed_offset or 0):
        return None
    at = "" if facts.rewind_to == facts.committed_offset else f"; now {facts.committed_offset:,}"
    return Verdict(
        Status.REWIND,
        f"went back {time_text(facts.rewind_ago_ms)} ago from {facts.rewind_from:,} to "
        f"{facts.rewind_to:,}{at}",
        Cause.OFFSET_RESET if facts.is_reset else Cause.OFFSET_REWIND,
    )


def _same_offset(facts: PartitionFacts, rules: StatusRules) -> Verdict | None:
    """The group commits the same offset again and again."""
    oldest_ms = facts.time_lag_at_least_ms or 0
    # The commits before a stop may be forgotten, and a stop is no usual time between commits.
    has_waited = oldest_ms - facts.commit_age_ms > rules.slow_after_ms
    if facts.same_commits < 2:
        is_unmoved = facts.commit_rate_per_s == 0 and oldest_ms > rules.pace_unknown_after_ms
        if not has_waited or not is_unmoved or oldest_ms <= _move_limit_ms(facts, rules):
            return None
        ago = time_text(facts.commit_age_ms)
        text = f"committed {ago} ago, still at offset {facts.committed_offset:,}"
        return Verdict(Status.STALL, text, Cause.SAME_OFFSET)
    if facts.commit_age_ms >= oldest_ms or not (has_waited or _is_slow(facts, rules)):
        return None
    waited_ms = oldest_ms
    if facts.moved_at_ms is not None:
        waited_ms = min(oldest_ms, facts.at_ms - facts.moved_at_ms)
    if waited_ms < _move_limit_ms(facts, rules):
        return None
    if waited_ms <= (facts.only_move_rest_ms or 0):
        rests = _only_rest_text(facts.only_move_rest_ms)
        text = f"no other offset for {time_text(waited_ms)}; {rests}"
        return Verdict(Status.UNKNOWN, text, Cause.SAME_OFFSET)
    times = count_text(facts.same_commits, "commit")
    if facts.moved_at_ms is None:
        since = f" in the last {time_text(facts.commits_from_ms)}"
    else:
        since = f" since {_moment(facts.moved_at_ms, facts)}"
    text = f"{times}{since}, all at offset {facts.committed_offset:,}"
    return Verdict(Status.STALL, text, Cause.SAME_OFFSET)


def _move_limit_ms(facts: PartitionFacts, rules: StatusRules) -> int:
    """Return the time that a record may wait until the committed offset moves."""
    rest_ms = max(facts.move_rest_ms or 0, 2 * (facts.rest_in_turn_ms or 0))
    if facts.is_member_busy:
        # It may read one partition after the other.
        longest_ms = 2 * (facts.longest_move_ms or 0)
        return max(rules.pace_unknown_after_ms, longest_ms, rest_ms)
    is_known = facts.move_waits >= ENOUGH
    least_ms = rules.slow_after_ms if is_known else rules.pace_unknown_after_ms
    return max(_limit_ms(least_ms, facts.usual_move_ms, rules), rest_ms)


def _is_slow(facts: PartitionFacts, rules: StatusRules) -> bool:
    # Records stay uncommitted between two commits, even in a fast group. The usual time between
    # commits may be unknown yet.
    pace_ms = max(facts.usual_commit_ms or 0, facts.usual_move_ms or 0, facts.commit_age_ms)
    rest_ms = max(facts.rest_ms or 0, facts.move_rest_ms or 0, 2 * (facts.rest_in_turn_ms or 0))
    # A record may take minutes of work, in which the client commits the same offset.
    is_unknown = bool(facts.commit_waits) and facts.move_waits < ENOUGH
    least_ms = rules.pace_unknown_after_ms if is_unknown else rules.slow_after_ms
    limit_ms = max(least_ms, 2 * pace_ms, rest_ms)
    return (facts.time_lag_at_least_ms or 0) > limit_ms


def _slow(facts: PartitionFacts, rules: StatusRules) -> Verdict | None:
    """The group reads too slowly."""
    deleted = _deleted_first(facts, rules)
    if deleted is not None:
        return deleted
    commits, produces = facts.commit_rate_per_s, facts.produce_rate_per_s
    if commits is None or produces is None or commits >= produces or not _is_slow(facts, rules):
        return None
    return Verdict(
        Status.WARN,
        f"reads {rate_text(commits)} records/s, producers write {rate_text(produces)} records/s",
    )


def _deleted_first(facts: PartitionFacts, rules: StatusRules) -> Verdict | None:
    """Uncommitted records will be deleted soon, before the group catches up."""
    left_ms = facts.retention_margin_ms
    if left_ms is None or left_ms >= rules.deleted_within_ms:
        return None
    if (facts.time_lag_at_least_ms or 0) <= rules.slow_after_ms:
        return None
    if facts.time_to_catch_up_ms is not None and facts.time_to_catch_up_ms <= left_ms:
        return None
    return Verdict(Status.WARN, f"unread records will be deleted in {time_text(left_ms)}")


def _moment(ms: int, facts: PartitionFacts) -> str:
    moment, now = (
        datetime.fromtimestamp(time_ms / 1000, timezone.utc) for time_ms in (ms, facts.at_ms)
    )
    return moment_text(moment, now)
