SELECT record_timestamp, group_id, topic, partition, producer_id, duration_ms, outcome
FROM {{ source('coordinator_state', 'group_events') }}
WHERE event = 'transaction_hung'
ORDER BY record_timestamp DESC
