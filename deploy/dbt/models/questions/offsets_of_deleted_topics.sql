SELECT DISTINCT group_id, topic
FROM {{ source('coordinator_state', 'group_lag') }}
WHERE topic_state = 'gone' AND committed_offset IS NOT NULL
ORDER BY ALL
