SELECT group_id, topic, partition, status, reason FROM {{ source('coordinator_state', 'group_lag') }}
