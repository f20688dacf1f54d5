SELECT g.group_id, g.state, max(o.commit_timestamp) AS last_commit
FROM {{ source('coordinator_state', 'groups') }} g LEFT JOIN {{ source('coordinator_state', 'group_offsets') }} o USING (log_partition, group_id)
WHERE g.member_count = 0
GROUP BY ALL
HAVING last_commit IS NULL OR last_commit < {{ moment() }} - INTERVAL 1 DAY
ORDER BY last_commit
