"""The facts about a group in a partition that its status depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coordinator_state.records.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from coordinator_state.replay.groups import SHARE

# The rates are over minutes: they show a stop late.
RESTS_AFTER_MS: Final = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """The facts about a committed offset; unknown facts are None.

    The names are the columns of `group_lag`, except for those below. A share group has no recent
    commits in the history, so only its last acknowledgement is known.

    Attributes:
        at_ms: the time up to which the tables have the group's commits, in ms since the epoch. Ages
            and time lags end there, but for `sample_age_ms` and `rewind_ago_ms`.
        is_simple: whether the group is known only from its offsets, so that it has no members.
        has_member: whether a member has the partition assigned.
        is_left_out: whether none has, although members have other partitions of the group.
        uncommitted_ms: the time for which the group has read the partition without a committed
            offset; None with one.
        gone_at_ms: the time of the first sample without the topic, in ms since the epoch; None if
            it exists, or if unknown.
        recreated_at_ms: when the topic was created again, in ms since the epoch, if the committed
            offset is of the deleted topic, or if there is none since; None otherwise.
        behind_ms: how far the tables are behind the internal topic with the group's progress.
        unsubscribed_expires_in_ms: the time until the offset expires because no member subscribes
            to the topic any more; None if one does, if it is unknown, or without members.
        is_out_of_range: whether the committed offset is past a log end that was sampled after it.
        sample_age_ms: the time since the log end was sampled.
        present_rate_per_s: the growth of the log end, but 0 if it did not grow in the last minute.
        commit_age_ms: without a committed offset it is `uncommitted_ms`.
        commits: the number of recent commits, at least 1.
        commits_from_ms: the age of the first of them.
        usual_commit_ms, commit_waits: how long a record usually waits for a commit, and the number
            of waits that show it (`coordinator_state.insight.pace`). Without a committed offset,
            the time is the longest of the group's other partitions.
        usual_move_ms, move_waits: the same for commits of another offset.
        longest_move_ms: the longest of these waits.
        usual_move_records: the usual difference between the offsets of two such commits; None
            unless most differences, and the last one, are like it.
        rest_ms: how long the group may go without a commit, because it usually rests
            (`pace.Rests`); None if that is unknown, or if its usual time is longer.
        move_rest_ms: the same for commits of another offset.
        only_rest_ms, only_move_rest_ms: how long it may go without one if it rests again as it has
            once; None if it has rested more often, or not at all.
        ended_at_ms: when the members left, in ms since the epoch, if the group may be a job that
            has ended (`absence`); None otherwise.
        usual_return_ms: how long records usually waited for members that had left, if they have
            left now; None otherwise.
        max_poll_ms: the greatest `max.poll.interval.ms` of members of the group, or what its
            clients send for it; None if unknown, or with a committed offset.
        rest_in_turn_ms: how long other partitions of the topic waited until the group went on to
            read them, after it read this one; None unless it reads them in turn.
        is_member_busy: whether the member gets on in another partition in which it is behind.
        same_commits: how many of the last commits have the current committed offset.
        moved_at_ms: when the first of these was committed; None if no other recent commit is known.
        rewound_from: the greatest offset that a recent rewind or reset left; None without one.
        read_before_to: the greatest offset up to which the group had read before it went back;
            None without a recent rewind or reset. The records that a reset skipped are not read.
        rewind_from, rewind_to, rewind_ago_ms: the last such rewind or reset.
        is_reset: whether it was a reset, of a group without members.
        aborted: the number of recent commits after the last commit, if all of them were aborted.
        aborted_from_ms, aborted_ago_ms: the ages of the first and last of them.
        usual_hold_ms, holds: how long open transactions usually hold the last stable offset of the
            log, and the number of holds that show it.
        is_often_held: whether most earlier samples of the log are within such a hold.
        is_hold_two_phase_commit: whether only its application ends the transaction that holds the
            last stable offset of the log now (KIP-939).
        held_ms: the time since the first commit that an open transaction holds; None without one.
        pending_producer_id, pending_client_id: the producer id of that transaction, and the client
            that has committed with it.
        pending_transactional_id: the transactional id of that producer, if it is known.
        overdue_ms: the time since that transaction's coordinator had to abort it, negative before
            that; None if it is unknown.
        is_marker_lost: whether that transaction will never end by itself.
        is_two_phase_commit: whether only its application ends that transaction (KIP-939).
        expires_in_ms: the time until the offset expires.
    """

    at_ms: int
    behind_ms: int | None
    has_members: bool
    is_simple: bool = False
    has_member: bool
    is_left_out: bool
    uncommitted_ms: int | None
    gone_at_ms: int | None
    recreated_at_ms: int | None
    group_type: str
    topic_state: str | None
    committed_offset: int | None
    log_start_offset: int | None
    last_stable_offset: int | None
    log_end_offset: int | None
    unsubscribed_expires_in_ms: int | None
    is_out_of_range: bool
    sample_age_ms: int | None
    lag: int | None
    is_lag_lower_bound: bool
    lag_to_last_stable: int | None
    data_lost: int | None
    time_lag_ms: int | None
    time_lag_at_least_ms: int | None
    time_lag_unknown: str | None
    retention_margin_ms: int | None
    commit_rate_per_s: float | None
    produce_rate_per_s: float | None
    present_rate_per_s: float | None
    time_to_catch_up_ms: int | None
    commit_age_ms: int
    commits: int
    commits_from_ms: int
    usual_commit_ms: int | None
    commit_waits: int
    usual_move_ms: int | None
    move_waits: int
    longest_move_ms: int | None
    usual_move_records: int | None = None
    rest_ms: int | None
    move_rest_ms: int | None
    only_rest_ms: int | None
    only_move_rest_ms: int | None
    ended_at_ms: int | None
    usual_return_ms: int | None
    max_poll_ms: int | None
    rest_in_turn_ms: int | None
    is_member_busy: bool
    same_commits: int
    moved_at_ms: int | None
    rewound_from: int | None
    read_before_to: int | None = None
    rewind_from: int | None
    rewind_to: int | None
    rewind_ago_ms: int | None
    is_reset: bool = False
    aborted: int
    aborted_from_ms: int | None
    aborted_ago_ms: int | None
    usual_hold_ms: int | None
    holds: int
    is_often_held: bool
    is_hold_two_phase_commit: bool = False
    held_ms: int | None
    pending_producer_id: int | None
    pending_client_id: str | None
    pending_transactional_id: str | None
    overdue_ms: int | None
    is_marker_lost: bool
    is_two_phase_commit: bool = False
    expires_in_ms: int | None

    @property
    def log_topic(self) -> str:
        """The internal topic with the group's progress."""
        return SHARE_STATE_TOPIC if self.group_type == SHARE else OFFSETS_TOPIC

    @property
    def growth_per_s(self) -> float | None:
        """The growth of the lag; if the committed offset rests, the growth of the log."""
        if self.present_rate_per_s is None:
            return None
        moved_ms = (
            self.commits_from_ms if self.moved_at_ms is None else self.at_ms - self.moved_at_ms
        )
        if moved_ms > max(RESTS_AFTER_MS, 2 * (self.usual_move_ms or 0)):
            return self.present_rate_per_s
        rate = self.commit_rate_per_s
        # A rewind makes the commit rate negative.
        return None if rate is None or rate < 0 else self.present_rate_per_s - rate
