"""Example queries for the dashboard and docs/sql.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the SELECT that answers it."""

    text: str
    sql: str


QUESTIONS = (
    Question(
        "Who moved an offset back, and from where to where?",
        """SELECT record_timestamp, group_id, topic, partition, offset_before, offset_after,
       client_id, client_host
FROM group_events
WHERE event IN ('offset_rewind', 'offset_reset') AND offset_after < offset_before
ORDER BY record_timestamp DESC""",
    ),
    Question(
        "Which groups are in trouble, and why?",
        """SELECT group_id, status, reason, lag, max_time_lag_at_least_ms
FROM group_status
WHERE status NOT IN ('OK', 'IDLE')
ORDER BY lag DESC""",
    ),
    Question(
        "Which groups have the largest time lag?",
        """SELECT group_id, topic, max(time_lag_at_least_ms) / 1000 AS time_lag_s,
       bool_or(time_lag_ms IS NULL) AS is_lower_bound, sum(lag) AS lag
FROM group_lag
GROUP BY ALL
ORDER BY time_lag_s DESC NULLS LAST
LIMIT 20""",
    ),
    Question(
        "Which groups will lose data next?",
        """SELECT group_id, topic, partition, lag, retention_margin_ms / 60000 AS minutes_left
FROM group_lag
WHERE retention_margin_ms IS NOT NULL
ORDER BY minutes_left
LIMIT 20""",
    ),
    Question(
        "Which groups have lost data?",
        """SELECT group_id, topic, sum(data_lost) AS records_lost
FROM group_lag
WHERE data_lost > 0
GROUP BY ALL
ORDER BY records_lost DESC""",
    ),
    Question(
        "Which groups still have offsets of a topic that is deleted?",
        """SELECT DISTINCT group_id, topic
FROM group_lag
WHERE topic_state = 'gone' AND committed_offset IS NOT NULL
ORDER BY ALL""",
    ),
    Question(
        "Which offsets expire this week?",
        """SELECT group_id, topic, partition, committed_offset, expires_at, reason
FROM expiring_offsets
WHERE expires_at < moment() + INTERVAL 7 DAYS
ORDER BY expires_at""",
    ),
    Question(
        "Which groups have been unused for a day?",
        """SELECT g.group_id, g.state, max(o.commit_timestamp) AS last_commit
FROM groups g LEFT JOIN group_offsets o USING (log_partition, group_id)
WHERE g.member_count = 0
GROUP BY ALL
HAVING last_commit IS NULL OR last_commit < moment() - INTERVAL 1 DAY
ORDER BY last_commit""",
    ),
    Question(
        "Which members have no committed offset for any assigned partition?",
        """WITH assigned AS (
  SELECT group_id, member_id, client_id, client_host, unnest(assignment) AS place
  FROM group_members
)
SELECT a.group_id, a.member_id, a.client_id, a.client_host, count(*) AS partitions
FROM assigned a LEFT JOIN group_offsets o
  ON o.group_id = a.group_id AND o.topic = a.place.topic AND o.partition = a.place.partition
GROUP BY ALL
HAVING count(o.record_offset) = 0
ORDER BY ALL""",
    ),
    Question(
        "Which members have no partition?",
        """SELECT group_id, client_id, client_host, member_id
FROM group_members
WHERE coalesce(len(assignment), 0) = 0 AND coalesce(len(tasks), 0) = 0
ORDER BY ALL""",
    ),
    Question(
        "Which hosts read which topics?",
        """SELECT client_host, client_id, group_id, topic, count(*) AS partitions
FROM group_lag
WHERE member_id IS NOT NULL
GROUP BY ALL
ORDER BY ALL""",
    ),
    Question(
        "Which partitions have no member, although their group is stable?",
        """SELECT group_id, topic, partition, lag
FROM group_lag
WHERE member_id IS NULL AND group_state = 'Stable'
ORDER BY lag DESC""",
    ),
    Question(
        "How often did each group rebalance in the last hour?",
        """SELECT group_id, count(*) AS rebalances, max(record_timestamp) AS last
FROM group_events
WHERE event = 'rebalance' AND record_timestamp > moment() - INTERVAL 1 HOUR
GROUP BY ALL
ORDER BY rebalances DESC""",
    ),
    Question(
        "Which members joined and left most often in the last day?",
        """SELECT group_id, client_id, client_host,
       count(*) FILTER (event = 'member_joined') AS joined,
       count(*) FILTER (event = 'member_left') AS left_
FROM group_events
WHERE event IN ('member_joined', 'member_left') AND record_timestamp > moment() - INTERVAL 1 DAY
GROUP BY ALL
ORDER BY joined DESC""",
    ),
    Question(
        "What happened in the last ten minutes?",
        """SELECT record_timestamp, group_id, event, topic, partition, client_id, client_host
FROM group_events
WHERE record_timestamp > moment() - INTERVAL 10 MINUTES
ORDER BY record_timestamp DESC""",
    ),
    Question(
        "Which transactions hold offsets back, and since when?",
        """SELECT transactional_id, producer_id, group_id, client_id, since, offsets,
       abort_timestamp, is_marker_lost, is_two_phase_commit
FROM open_transactions
ORDER BY since""",
    ),
    Question(
        "Which transactional ids time out?",
        """SELECT transactional_id, count(*) AS timed_out, max(record_timestamp) AS last_at
FROM transaction_events
WHERE event = 'timed_out'
GROUP BY ALL
ORDER BY timed_out DESC""",
    ),
    Question(
        "Which transactions hung, and how did they end?",
        """SELECT record_timestamp, group_id, topic, partition, producer_id, duration_ms, outcome
FROM group_events
WHERE event = 'transaction_hung'
ORDER BY record_timestamp DESC""",
    ),
    Question(
        "How fast do groups commit, by the minute?",
        """SELECT group_id, time_bucket(INTERVAL 1 MINUTE, commit_timestamp) AS minute,
       count(*) AS commits
FROM offset_commits
WHERE NOT is_tombstone AND outcome = 'committed'
  AND commit_timestamp > moment() - INTERVAL 1 HOUR
GROUP BY ALL
ORDER BY minute DESC, commits DESC""",
    ),
    Question(
        "Which commits were aborted with their transaction?",
        """SELECT group_id, topic, partition, committed_offset, record_timestamp, producer_id
FROM offset_commits
WHERE outcome = 'aborted'
ORDER BY record_timestamp DESC""",
    ),
    Question(
        "Which records cannot be decoded?",
        """SELECT log_partition, record_offset, record_timestamp, record_type, reason
FROM quarantine
ORDER BY record_timestamp DESC""",
    ),
    Question(
        "How many groups and committed offsets does each topic have?",
        """SELECT topic, count(DISTINCT group_id) AS groups, count(*) AS offsets
FROM group_offsets
GROUP BY ALL
ORDER BY offsets DESC""",
    ),
)
"""Each query also works for an earlier moment (`as_of`)."""
