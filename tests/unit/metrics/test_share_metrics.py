"""/metrics over tables with a share group."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from tests.support.tables.scraped_tables import labels, scraped
from tests.support.tables.share_tables import (
    GROUP,
    TOPIC,
    create_share_tables,
    share_partition,
)


def test_share_groups_have_the_metrics_of_groups(tmp_path: Path) -> None:
    now = datetime.now(timezone.utc)
    partitions = [
        share_partition(60, 15, at=now),
        share_partition(-1, None, at=now, partition=1),
    ]
    found = scraped(create_share_tables(tmp_path, now, partitions))
    group, member = {"group": GROUP}, {"client_id": "c", "consumer_id": "m0"}
    at = labels(**group, topic=TOPIC, partition="0", member_host="/127.0.0.1", **member)
    assert found["kafka_consumergroup_group_offset", at] == 60
    assert found["kafka_consumergroup_group_lag", at] == 25
    assert 40 <= found["kafka_consumergroup_group_lag_seconds", at] < 60
    assert found["kafka_consumergroup_group_sum_lag", labels(**group)] == 25
    assert found["kafka_consumergroup_group_topic_sum_lag", labels(**group, topic=TOPIC)] == 25
    assert 0 <= found["coordinator_state_group_last_commit_age_seconds", labels(**group)] < 20
    assert found["coordinator_state_group_status", labels(**group, status="OK")] == 1
    no_start = labels(
        **group, topic=TOPIC, partition="1", member_host="", consumer_id="", client_id=""
    )
    for name in ("offset", "lag", "lag_seconds"):
        assert (f"kafka_consumergroup_group_{name}", no_start) not in found
