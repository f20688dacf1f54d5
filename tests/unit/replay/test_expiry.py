"""When offsets expire.

Tests that name one of Kafka's follow OffsetMetadataManagerTest.java, ClassicGroupTest.java and
OffsetExpirationConditionImplTest.java of 4.2.0 (group-coordinator/src/test).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.replay.expiry import Expiry, ExpiryReason, expiry
from coordinator_state.replay.groups import Group
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.partitioner import partition_for
from streaming.lag.expiring_offsets import EXPIRING_OFFSETS, expiring_offsets
from streaming.tables.reader import TableReader
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

COMMITTED, EMPTIED, RETENTION = 1_000, 5_000, 100


def group(
    group_type: str = "classic",
    state: str = "Empty",
    protocol_type: str = "consumer",
    subscribed: Collection[str] | None = (),
    state_timestamp_ms: int | None = EMPTIED,
) -> Group:
    return Group(
        group_id="g",
        group_type=group_type,
        state=state,
        protocol_type=protocol_type,
        state_timestamp_ms=state_timestamp_ms,
        subscribed_topics=None if subscribed is None else tuple(subscribed),
    )


def expired(
    of: Group | None, *, expire_timestamp_ms: int | None = None, is_pending: bool = False
) -> Expiry:
    return expiry(
        of,
        "t",
        commit_timestamp_ms=COMMITTED,
        expire_timestamp_ms=expire_timestamp_ms,
        is_pending=is_pending,
        retention_ms=RETENTION,
    )


SIMPLE = group(protocol_type="", state_timestamp_ms=None, subscribed=None)


@pytest.mark.parametrize(
    ("of", "at_ms", "reason"),
    [
        (SIMPLE, COMMITTED + RETENTION, ExpiryReason.COMMIT),
        (group(), EMPTIED + RETENTION, ExpiryReason.EMPTY_GROUP),
        (group(state_timestamp_ms=None), COMMITTED + RETENTION, ExpiryReason.COMMIT),
        (
            group(protocol_type="connect", subscribed=None),
            EMPTIED + RETENTION,
            ExpiryReason.EMPTY_GROUP,
        ),
        (group(state="Stable", subscribed=["t"]), None, ExpiryReason.SUBSCRIBED),
        (group(state="Stable", subscribed=["u"]), COMMITTED + RETENTION, ExpiryReason.COMMIT),
        (group(state="Stable", subscribed=None), None, ExpiryReason.ACTIVE_GROUP),
        (
            group(state="Stable", protocol_type="connect", subscribed=None),
            None,
            ExpiryReason.ACTIVE_GROUP,
        ),
        (group(state="PreparingRebalance"), None, ExpiryReason.ACTIVE_GROUP),
        (group("consumer", "Reconciling", subscribed=["t"]), None, ExpiryReason.SUBSCRIBED),
        (group("consumer", "Empty"), COMMITTED + RETENTION, ExpiryReason.COMMIT),
        (group("streams", "NotReady", "streams"), COMMITTED + RETENTION, ExpiryReason.COMMIT),
        (group("share", "Empty", "share"), None, ExpiryReason.SHARE_GROUP),
        # Members without a protocol type make it a type all the same.
        (group(state="Stable", protocol_type="", subscribed=None), None, ExpiryReason.ACTIVE_GROUP),
        (None, None, ExpiryReason.NO_GROUP),
    ],
)
def test_by_type_and_state(of: Group | None, at_ms: int | None, reason: ExpiryReason) -> None:
    """As `testOffsetExpirationCondition…` of ClassicGroupTest."""
    assert expired(of) == Expiry(at_ms=at_ms, reason=reason)


def test_a_waiting_transactional_offset_keeps_it() -> None:
    """As `testCleanupExpiredOffsetsWithPendingTransactionalOffsets`."""
    assert expired(group(), is_pending=True) == Expiry(at_ms=None, reason=ExpiryReason.PENDING)


def test_the_old_coordinator_expires_beside_a_waiting_transactional_offset() -> None:
    """KAFKA-19163 is fixed in the new one only."""
    found = expiry(
        SIMPLE,
        "t",
        commit_timestamp_ms=COMMITTED,
        expire_timestamp_ms=None,
        is_pending=True,
        retention_ms=RETENTION,
        semantics=Semantics.SCALA,
    )
    assert found.at_ms == COMMITTED + RETENTION


def test_an_expire_timestamp_of_its_own_wins_over_retention_but_not_over_a_subscription() -> None:
    assert expired(group(), expire_timestamp_ms=7) == Expiry(at_ms=7, reason=ExpiryReason.EXPLICIT)
    subscribed = group(state="Stable", subscribed=["t"])
    assert expired(subscribed, expire_timestamp_ms=7).reason is ExpiryReason.SUBSCRIBED


def test_the_view_over_the_tables(tmp_path: Path) -> None:
    tables = create_tables(tmp_path, log_partitions="4")
    now = datetime(2026, 11, 21, tzinfo=timezone.utc)

    def offset(group_id: str, topic: str, days: int, **fields: Any) -> dict[str, Any]:
        return {
            "group_id": group_id,
            "log_partition": partition_for(group_id, 4),
            "topic": topic,
            "partition": 0,
            "committed_offset": 5,
            "commit_timestamp": now - timedelta(days=days),
            **fields,
        }

    apply_micro_batch(
        tables,
        groups=[
            {"group_id": "simple", "log_partition": partition_for("simple", 4)},
            {
                "group_id": "live",
                "log_partition": partition_for("live", 4),
                "group_type": "consumer",
                "state": "Stable",
                "subscribed_topics": ["t"],
            },
        ],
        group_offsets=[
            offset("simple", "t", days=6),
            offset("simple", "p", days=6),
            offset("live", "t", days=30),
            offset("live", "u", days=6, expire_timestamp=now + timedelta(hours=1)),
            offset("gone", "t", days=30),
        ],
        pending_offsets=[offset("simple", "p", days=0)],
        progress=[{"log_partition": n, "next_offset": 9} for n in range(4)],
    )
    found = expiring_offsets(TableReader(tables), retention_ms=7 * 86_400_000)

    assert found.schema == EXPIRING_OFFSETS
    rows = [
        (row["group_id"], row["topic"], row["expires_at"], row["reason"])
        for row in found.to_pylist()
    ]
    assert rows == [
        ("live", "u", now + timedelta(hours=1), ExpiryReason.EXPLICIT.value),
        ("simple", "t", now + timedelta(days=1), ExpiryReason.COMMIT.value),
        ("gone", "t", None, ExpiryReason.NO_GROUP.value),
        ("live", "t", None, ExpiryReason.SUBSCRIBED.value),
        ("simple", "p", None, ExpiryReason.PENDING.value),
    ]
    some = expiring_offsets(TableReader(tables), retention_ms=1, group_ids=["gone"])
    assert some["group_id"].to_pylist() == ["gone"]
