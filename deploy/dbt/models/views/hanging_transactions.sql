WITH loaded AS (
  SELECT count(*) > 0 AND min(state) = 'current' AND max(state) = 'current' AS is_loaded,
         bool_and(next_offset >= high_watermark AND records_quarantined = 0) AS is_whole
  FROM {{ source('coordinator_state', 'topic_progress') }}
  WHERE log_topic = '__transaction_state'
), producers AS (
  SELECT *, row_number() OVER (
           PARTITION BY producer_id ORDER BY last_update_timestamp DESC NULLS LAST
         ) AS place
  FROM {{ source('coordinator_state', 'transactions') }}
), newest AS (
  SELECT log_partition, producer_id,
         max(coalesce(record_timestamp, commit_timestamp)) AS at
  FROM {{ source('coordinator_state', 'pending_offsets') }}
  GROUP BY log_partition, producer_id
), held AS (
  SELECT log_partition, producer_id, max(producer_epoch) AS producer_epoch, group_id,
         max_by(client_id, record_offset) AS client_id,
         max_by(client_host, record_offset) AS client_host,
         count(*) AS offsets, min(coalesce(record_timestamp, commit_timestamp)) AS since
  FROM {{ source('coordinator_state', 'pending_offsets') }}
  GROUP BY log_partition, producer_id, group_id
), owned AS (
  SELECT h.*, t.transactional_id, t.state, t.abort_timestamp,
         coalesce(t.state IN ('Ongoing', 'PrepareCommit', 'PrepareAbort')
           AND t.start_timestamp <= n.at + INTERVAL '1' MINUTE, false) AS is_open,
         n.at < {{ moment() }} - INTERVAL '1' MINUTE
           AND coalesce(t.last_update_timestamp < {{ moment() }} - INTERVAL '1' MINUTE, true)
           AS is_settled,
         l.is_loaded AND l.is_whole AND p.state = 'current'
           AND p.next_offset >= p.high_watermark AS is_at_end
  FROM held AS h
  JOIN newest AS n ON n.log_partition = h.log_partition AND n.producer_id = h.producer_id
  CROSS JOIN loaded AS l
  LEFT JOIN producers AS t ON l.is_loaded AND t.place = 1 AND t.producer_id = h.producer_id
  LEFT JOIN {{ source('coordinator_state', 'load_progress') }} AS p ON p.log_partition = h.log_partition
)
SELECT log_partition, producer_id, producer_epoch, group_id, client_id, client_host,
       offsets, since, transactional_id, state AS transaction_state,
       CASE WHEN is_open THEN abort_timestamp END AS abort_timestamp,
       CASE WHEN is_at_end THEN NOT is_open AND is_settled END AS is_marker_lost
FROM owned WHERE since < {{ moment() }} - INTERVAL '15' MINUTE
