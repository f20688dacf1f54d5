SELECT group_id, client_id, client_host,
       count(*) FILTER (event = 'member_joined') AS joined,
       count(*) FILTER (event = 'member_left') AS left_
FROM {{ source('coordinator_state', 'group_events') }}
WHERE event IN ('member_joined', 'member_left') AND record_timestamp > {{ moment() }} - INTERVAL 1 DAY
GROUP BY ALL
ORDER BY joined DESC
