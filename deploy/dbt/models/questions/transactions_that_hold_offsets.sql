SELECT transactional_id, producer_id, group_id, client_id, since, offsets,
       abort_timestamp, is_marker_lost, is_two_phase_commit
FROM {{ ref('open_transactions') }}
ORDER BY since
