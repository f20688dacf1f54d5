SELECT record_timestamp, group_id, event, topic, partition, client_id, client_host
FROM {{ source('coordinator_state', 'group_events') }}
WHERE record_timestamp > {{ moment() }} - INTERVAL 10 MINUTES
ORDER BY record_timestamp DESC
