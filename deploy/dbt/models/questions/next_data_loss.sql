SELECT group_id, topic, partition, lag, retention_margin_ms / 60000 AS minutes_left
FROM {{ source('coordinator_state', 'group_lag') }}
WHERE retention_margin_ms IS NOT NULL
ORDER BY minutes_left
LIMIT 20
