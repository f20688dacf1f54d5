"""The limits of statuses that the settings of a cluster give."""

from __future__ import annotations

from coordinator_state.insight.group_status import StatusRules
from streaming.run.cluster_settings import ClusterSettings

HOUR_MS = 3_600_000


def test_brokers_say_how_long_a_transaction_may_be_open_unless_the_user_does() -> None:
    cluster = ClusterSettings(
        offsets_retention_ms=1, delete_retention_ms=1, transaction_max_timeout_ms=HOUR_MS
    )
    assert cluster.limits(StatusRules(rebalances=9)) == StatusRules(
        rebalances=9, hanging_after_ms=HOUR_MS
    )
    own = StatusRules(hanging_after_ms=60_000)
    assert cluster.limits(own) == own
