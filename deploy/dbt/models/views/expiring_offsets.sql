WITH held AS (
  SELECT DISTINCT p.log_partition, p.group_id, p.topic, p.partition
  FROM {{ source('coordinator_state', 'pending_offsets') }} AS p
  JOIN {{ source('coordinator_state', 'load_progress') }} AS l ON l.log_partition = p.log_partition
  WHERE l.semantics = 'coordinator'
), ruled AS (
  SELECT o.group_id, o.topic, o.partition, o.log_partition, g.group_type, g.state,
         o.committed_offset, o.commit_timestamp, o.expire_timestamp, g.state_timestamp,
         CASE
           WHEN g.group_id IS NULL
             THEN 'never: the group is deleted'
           WHEN g.group_type = 'share'
             THEN 'never: share groups have no offsets here'
           WHEN g.group_type = 'classic' AND g.state <> 'Empty' AND (
             g.state <> 'Stable' OR coalesce(g.protocol_type, '') <> 'consumer'
             OR g.subscribed_topics IS NULL)
             THEN 'never: the group has members, and their subscription is unknown'
           WHEN array_contains(g.subscribed_topics, o.topic)
             THEN 'never: the group subscribes to the topic'
           WHEN h.group_id IS NOT NULL
             THEN 'never: a transactional commit is pending'
           WHEN o.expire_timestamp IS NOT NULL
             THEN concat('the commit', chr(39), 's own expire timestamp')
           WHEN g.group_type = 'classic' AND g.state = 'Empty'
             AND coalesce(g.protocol_type, '') <> '' AND g.state_timestamp IS NOT NULL
             THEN 'retention after the group became Empty'
           ELSE 'retention after the commit'
         END AS reason
  FROM {{ source('coordinator_state', 'group_offsets') }} AS o
  LEFT JOIN {{ source('coordinator_state', 'groups') }} AS g ON g.log_partition = o.log_partition AND g.group_id = o.group_id
  LEFT JOIN held AS h ON h.log_partition = o.log_partition AND h.group_id = o.group_id
    AND h.topic = o.topic AND h.partition = o.partition
  WHERE coalesce(g.group_type, '') <> 'external'
)
SELECT group_id, topic, partition, log_partition, group_type, state, committed_offset,
       commit_timestamp,
       CASE WHEN reason NOT LIKE 'never:%' THEN least(
         CASE reason
           WHEN 'retention after the commit' THEN commit_timestamp + {{ offsets_retention() }}
           WHEN 'retention after the group became Empty'
             THEN state_timestamp + {{ offsets_retention() }}
           ELSE expire_timestamp
         END, TIMESTAMP '9999-12-31 23:59:59.999Z') END AS expires_at,
       reason
FROM ruled
