SELECT record_timestamp, group_id, topic, partition, offset_before, offset_after,
       client_id, client_host
FROM {{ source('coordinator_state', 'group_events') }}
WHERE event IN ('offset_rewind', 'offset_reset') AND offset_after < offset_before
ORDER BY record_timestamp DESC
