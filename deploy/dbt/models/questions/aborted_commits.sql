SELECT group_id, topic, partition, committed_offset, record_timestamp, producer_id
FROM {{ source('coordinator_state', 'offset_commits') }}
WHERE outcome = 'aborted'
ORDER BY record_timestamp DESC
