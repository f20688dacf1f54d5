SELECT transactional_id, count(*) AS timed_out, max(record_timestamp) AS last_at
FROM {{ source('coordinator_state', 'transaction_events') }}
WHERE event = 'timed_out'
GROUP BY ALL
ORDER BY timed_out DESC
