SELECT group_id, status, reason, lag, max_time_lag_at_least_ms
FROM {{ source('coordinator_state', 'group_status') }}
WHERE status NOT IN ('OK', 'IDLE')
ORDER BY lag DESC
