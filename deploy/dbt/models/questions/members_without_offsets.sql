WITH assigned AS (
  SELECT group_id, member_id, client_id, client_host, unnest(assignment) AS place
  FROM {{ source('coordinator_state', 'group_members') }}
)
SELECT a.group_id, a.member_id, a.client_id, a.client_host, count(*) AS partitions
FROM assigned a LEFT JOIN {{ source('coordinator_state', 'group_offsets') }} o
  ON o.group_id = a.group_id AND o.topic = a.place.topic AND o.partition = a.place.partition
GROUP BY ALL
HAVING count(o.record_offset) = 0
ORDER BY ALL
