SELECT topic, count(DISTINCT group_id) AS groups, count(*) AS offsets
FROM {{ source('coordinator_state', 'group_offsets') }}
GROUP BY ALL
ORDER BY offsets DESC
