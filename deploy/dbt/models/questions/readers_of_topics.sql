SELECT client_host, client_id, group_id, topic, count(*) AS partitions
FROM {{ source('coordinator_state', 'group_lag') }}
WHERE member_id IS NOT NULL
GROUP BY ALL
ORDER BY ALL
