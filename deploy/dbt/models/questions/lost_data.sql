SELECT group_id, topic, sum(data_lost) AS records_lost
FROM {{ source('coordinator_state', 'group_lag') }}
WHERE data_lost > 0
GROUP BY ALL
ORDER BY records_lost DESC
