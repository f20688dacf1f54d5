SELECT log_partition, record_offset, record_timestamp, record_type, reason
FROM {{ source('coordinator_state', 'quarantine') }}
ORDER BY record_timestamp DESC
