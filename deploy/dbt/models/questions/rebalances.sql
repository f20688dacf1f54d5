SELECT group_id, count(*) AS rebalances, max(record_timestamp) AS last
FROM {{ source('coordinator_state', 'group_events') }}
WHERE event = 'rebalance' AND record_timestamp > {{ moment() }} - INTERVAL 1 HOUR
GROUP BY ALL
ORDER BY rebalances DESC
