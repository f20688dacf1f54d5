SELECT g.log_partition, g.group_id, count(o.topic) AS offsets,
       max(o.commit_timestamp) AS last_commit_timestamp
FROM {{ source('coordinator_state', 'groups') }} AS g
LEFT JOIN {{ source('coordinator_state', 'group_offsets') }} AS o
  ON o.log_partition = g.log_partition AND o.group_id = g.group_id
WHERE g.record_offset = -1 AND g.group_type <> 'external'
GROUP BY g.log_partition, g.group_id
