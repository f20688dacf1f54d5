SELECT group_id, time_bucket(INTERVAL 1 MINUTE, commit_timestamp) AS minute,
       count(*) AS commits
FROM {{ source('coordinator_state', 'offset_commits') }}
WHERE NOT is_tombstone AND outcome = 'committed'
  AND commit_timestamp > {{ moment() }} - INTERVAL 1 HOUR
GROUP BY ALL
ORDER BY minute DESC, commits DESC
