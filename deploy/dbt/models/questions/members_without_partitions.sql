SELECT group_id, client_id, client_host, member_id
FROM {{ source('coordinator_state', 'group_members') }}
WHERE coalesce(len(assignment), 0) = 0 AND coalesce(len(tasks), 0) = 0
ORDER BY ALL
