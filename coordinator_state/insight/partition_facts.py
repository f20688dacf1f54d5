"""The facts about a group in a partition that its status depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC
from coordinator_state.replay.groups import SHARE
from coordinator_state.replay.partitioner import OFFSETS_TOPIC

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
        behind_ms: how far the tables are behind the internal topic with the group's progress.
        sample_age_ms: the time since the log end was sampled.
        commits: the number of recent commits, at least 1.
        commits_from_ms: the age of the first of them.
        same_commits: how many of the last commits have the current committed offset.
        moved_at_ms: when the first of these was committed; None if no other recent commit is known.
        rewound_from: the greatest offset that a recent rewind or reset left; None without one.
        rewind_from, rewind_to, rewind_ago_ms: the last such rewind or reset.
        aborted: the number of recent commits after the last commit, if all of them were aborted.
        aborted_from_ms, aborted_ago_ms: the ages of the first and last of them.
        held_ms: the time since the first commit that an open transaction holds; None without one.
        pending_producer_id, pending_client_id: the producer id of that transaction, and the client
            that has committed with it.
        pending_transactional_id: the transactional id of that producer, if it is known.
        is_marker_lost: whether that transaction will never end by itself.
        expires_in_ms: the time until the offset expires.
    """

    at_ms: int
    behind_ms: int | None
    has_members: bool
    group_type: str
    topic_state: str | None
    committed_offset: int | None
    log_start_offset: int | None
    last_stable_offset: int | None
    log_end_offset: int | None
    sample_age_ms: int | None
    lag: int | None
    lag_to_last_stable: int | None
    data_lost: int | None
    time_lag_ms: int | None
    time_lag_at_least_ms: int | None
    time_lag_unknown: str | None
    retention_margin_ms: int | None
    commit_rate_per_s: float | None
    produce_rate_per_s: float | None
    time_to_catch_up_ms: int | None
    commit_age_ms: int
    commits: int
    commits_from_ms: int
    same_commits: int
    moved_at_ms: int | None
    rewound_from: int | None
    rewind_from: int | None
    rewind_to: int | None
    rewind_ago_ms: int | None
    aborted: int
    aborted_from_ms: int | None
    aborted_ago_ms: int | None
    held_ms: int | None
    pending_producer_id: int | None
    pending_client_id: str | None
    pending_transactional_id: str | None
    is_marker_lost: bool
    expires_in_ms: int | None

    @property
    def log_topic(self) -> str:
        """The internal topic with the group's progress."""
        return SHARE_STATE_TOPIC if self.group_type == SHARE else OFFSETS_TOPIC

    @property
    def interval_ms(self) -> int:
        """The usual time between two commits, 0 if only one is known."""
        if self.commits < 2:
            return 0
        return (self.commits_from_ms - self.commit_age_ms) // (self.commits - 1)

    @property
    def growth_per_s(self) -> float | None:
        """The growth of the lag; if the committed offset rests, the growth of the log."""
        if self.produce_rate_per_s is None:
            return None
        moved_ms = (
            self.commits_from_ms if self.moved_at_ms is None else self.at_ms - self.moved_at_ms
        )
        if moved_ms > max(RESTS_AFTER_MS, 2 * self.interval_ms):
            return self.produce_rate_per_s
        rate = self.commit_rate_per_s
        # A rewind makes the commit rate negative.
        return None if rate is None or rate < 0 else self.produce_rate_per_s - rate
