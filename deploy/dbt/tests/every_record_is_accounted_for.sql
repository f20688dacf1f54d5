-- Each record that was read has one outcome.
SELECT '__consumer_offsets' AS log_topic, log_partition, records_read, records_unaccounted
FROM {{ source('coordinator_state', 'load_progress') }}
WHERE records_read <> records_applied + records_superseded + records_ignored
                      + records_quarantined + records_pending
   OR coalesce(records_unaccounted, 0) <> 0
UNION ALL
SELECT log_topic, log_partition, records_read, records_unaccounted
FROM {{ source('coordinator_state', 'topic_progress') }}
WHERE records_read <> records_applied + records_ignored + records_quarantined
   OR records_unaccounted <> 0
