SELECT group_id, topic, max(time_lag_at_least_ms) / 1000 AS time_lag_s,
       bool_or(time_lag_ms IS NULL) AS is_lower_bound, sum(lag) AS lag
FROM {{ source('coordinator_state', 'group_lag') }}
GROUP BY ALL
ORDER BY time_lag_s DESC NULLS LAST
LIMIT 20
