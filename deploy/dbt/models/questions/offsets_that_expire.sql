SELECT group_id, topic, partition, committed_offset, expires_at, reason
FROM {{ ref('expiring_offsets') }}
WHERE expires_at < {{ moment() }} + INTERVAL 7 DAYS
ORDER BY expires_at
