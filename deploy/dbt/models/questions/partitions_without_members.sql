SELECT group_id, topic, partition, lag
FROM {{ source('coordinator_state', 'group_lag') }}
WHERE member_id IS NULL AND group_state = 'Stable'
ORDER BY lag DESC
