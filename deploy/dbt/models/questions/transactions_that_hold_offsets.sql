SELECT transactional_id, producer_id, group_id, client_id, since, offsets,
       abort_timestamp, is_marker_lost
FROM {{ ref('open_transactions') }}
ORDER BY since
