"""When offsets expire.

Tests that name one of Kafka's follow GroupMetadataManagerTest.scala of 3.9.1, and of 4.2.0
OffsetMetadataManagerTest.java, ClassicGroupTest.java and OffsetExpirationConditionImplTest.java.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from coordinator_state.apply.columns import nullable
from coordinator_state.replay.expiry import Expiry, ExpiryReason, expiry
from coordinator_state.replay.groups import Group
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.partitioner import partition_for
from streaming.lag.evaluation import Evaluation
from streaming.lag.expiries import expiries
from streaming.tables.clock import moment_ms
from streaming.tables.reader import TableReader
from streaming.views.definitions import SCHEMAS, SELECTS, VIEWS, in_duckdb
from streaming.views.query import query
from streaming.views.snapshot import Snapshot
from tests.support.tables.tables_folder import apply_micro_batch, create_tables, write_rows

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
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


SIMPLE = group(protocol_type="", state_timestamp_ms=None, subscribed=None)
BY_COMMIT = Expiry(at_ms=COMMITTED + RETENTION, reason=ExpiryReason.COMMIT)
BY_EMPTY_GROUP = Expiry(at_ms=EMPTIED + RETENTION, reason=ExpiryReason.EMPTY_GROUP)
SUBSCRIBED = Expiry(at_ms=None, reason=ExpiryReason.SUBSCRIBED)
ACTIVE_GROUP = Expiry(at_ms=None, reason=ExpiryReason.ACTIVE_GROUP)
SHARE_GROUP = Expiry(at_ms=None, reason=ExpiryReason.SHARE_GROUP)
NO_GROUP = Expiry(at_ms=None, reason=ExpiryReason.NO_GROUP)
ACTIVE_CONNECT = group(state="Stable", protocol_type="connect", subscribed=None)
EXPLICIT_MS = 7
"""The expire timestamp of an offset of an old client."""
EXPLICIT = Expiry(at_ms=EXPLICIT_MS, reason=ExpiryReason.EXPLICIT)


CASES = [
    (SIMPLE, BY_COMMIT, EXPLICIT),
    (group(), BY_EMPTY_GROUP, EXPLICIT),
    (group(state_timestamp_ms=None), BY_COMMIT, EXPLICIT),
    (group(protocol_type="connect", subscribed=None), BY_EMPTY_GROUP, EXPLICIT),
    (group(state="Stable", subscribed=["t"]), SUBSCRIBED, SUBSCRIBED),
    (group(state="Stable", subscribed=["t", "u"]), SUBSCRIBED, SUBSCRIBED),
    (group(state="Stable", subscribed=["u"]), BY_COMMIT, EXPLICIT),
    (group(state="Stable", subscribed=None), ACTIVE_GROUP, ACTIVE_GROUP),
    (ACTIVE_CONNECT, ACTIVE_GROUP, ACTIVE_GROUP),
    (group(state="PreparingRebalance"), ACTIVE_GROUP, ACTIVE_GROUP),
    (group("consumer", "Reconciling", subscribed=["t"]), SUBSCRIBED, SUBSCRIBED),
    (group("consumer", "Empty"), BY_COMMIT, EXPLICIT),
    (group("streams", "NotReady", "streams"), BY_COMMIT, EXPLICIT),
    (group("share", "Empty", "share"), SHARE_GROUP, SHARE_GROUP),
    # Members without a protocol type make it a type all the same.
    (group(state="Stable", protocol_type="", subscribed=None), ACTIVE_GROUP, ACTIVE_GROUP),
    (None, NO_GROUP, NO_GROUP),
]


def expiry_of(
    of: Group | None,
    semantics: Semantics,
    *,
    expire_timestamp_ms: int | None = None,
    is_pending: bool = False,
) -> Expiry:
    """The expiry of an offset of topic `t`."""
    return expiry(
        of,
        "t",
        commit_timestamp_ms=COMMITTED,
        expire_timestamp_ms=expire_timestamp_ms,
        is_pending=is_pending,
        retention_ms=RETENTION,
        semantics=semantics,
    )


@pytest.mark.parametrize("semantics", list(Semantics))
@pytest.mark.parametrize(("of", "by_retention", "with_expire_timestamp"), CASES)
def test_by_type_and_state(
    semantics: Semantics, of: Group | None, by_retention: Expiry, with_expire_timestamp: Expiry
) -> None:
    """As `testOffsetExpiration…` of GroupMetadataManagerTest and `testCleanupExpiredOffsets…`."""
    assert expiry_of(of, semantics) == by_retention
    explicit = expiry_of(of, semantics, expire_timestamp_ms=EXPLICIT_MS)
    assert explicit == with_expire_timestamp


def test_of_an_offset_beside_a_pending_one() -> None:
    """As `testCleanupExpiredOffsetsWithPendingTransactionalOffsets`."""
    pending = Expiry(at_ms=None, reason=ExpiryReason.PENDING)
    assert expiry_of(group(), Semantics.COORDINATOR, is_pending=True) == pending
    # KAFKA-19163 is fixed in the new coordinator only.
    assert expiry_of(SIMPLE, Semantics.SCALA, is_pending=True) == BY_COMMIT


def test_the_view_over_the_tables(tmp_path: Path) -> None:
    tables = create_tables(tmp_path, log_partitions="4")
    now = NOW

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
    table = Snapshot(TableReader(tables)).expiring_offsets(retention_ms=7 * 86_400_000)

    assert table.schema == VIEWS["expiring_offsets"]
    columns = ("group_id", "topic", "expires_at", "reason")
    assert list(zip(*(table[name].to_pylist() for name in columns), strict=True)) == [
        ("live", "u", now + timedelta(hours=1), ExpiryReason.EXPLICIT.value),
        ("simple", "t", now + timedelta(days=1), ExpiryReason.COMMIT.value),
        ("gone", "t", None, ExpiryReason.NO_GROUP.value),
        ("live", "t", None, ExpiryReason.SUBSCRIBED.value),
        ("simple", "p", None, ExpiryReason.PENDING.value),
    ]
    of_group = Snapshot(TableReader(tables)).expiring_offsets(retention_ms=1, group_id="gone")
    assert of_group["group_id"].to_pylist() == ["gone"]


TYPES = ("classic", "consumer", "share", "streams")
PROTOCOLS = (None, "", "consumer", "connect")
SUBSCRIPTIONS = (None, ["u"], ["t", "u"])
TIMES = (None, NOW + timedelta(seconds=5))


@dataclass
class Kept:
    """Tables in memory."""

    at: datetime
    tables: Mapping[str, pa.Table]

    def queried(self, name: str) -> pa.Table:
        return self.tables[name]


def ms(time: datetime | None) -> int | None:
    return None if time is None else moment_ms(time)


def test_the_view_and_the_rule_agree_on_every_kind_of_group() -> None:
    """Log partition 0 has the semantics `coordinator`, and 1 the semantics `scala`."""
    kinds = product(
        *((0, 1), (*TYPES, None), ("Empty", "Stable", "PreparingRebalance"), PROTOCOLS),
        *(SUBSCRIPTIONS, TIMES, TIMES, (False, True)),
    )
    rows: dict[str, list[dict[str, Any]]] = {
        "load_progress": [
            {"log_partition": 0, "semantics": "coordinator"},
            {"log_partition": 1, "semantics": "scala"},
        ],
        **{name: [] for name in ("groups", "group_offsets", "pending_offsets")},
    }
    expected = {}
    for number, kind in enumerate(kinds):
        log_partition, group_type, state, protocol, topics, emptied, explicit, is_pending = kind
        key = {"log_partition": log_partition, "group_id": str(number), "topic": "t"}
        rows["group_offsets"].append(
            {**key, "partition": 0, "commit_timestamp": NOW, "expire_timestamp": explicit}
        )
        if is_pending:
            rows["pending_offsets"] += [{**key, "partition": 0, "producer_id": n} for n in (7, 8)]
        if group_type is not None:
            rows["groups"].append(
                {
                    **{**key, "group_type": group_type, "state": state, "protocol_type": protocol},
                    **{"state_timestamp": emptied, "subscribed_topics": topics},
                }
            )
        expected[str(number)] = expiry(
            None
            if group_type is None
            else Group(
                group_id="",
                group_type=group_type,
                state=state,
                protocol_type=protocol or "",
                state_timestamp_ms=ms(emptied),
                subscribed_topics=None if topics is None else tuple(topics),
            ),
            "t",
            commit_timestamp_ms=moment_ms(NOW),
            expire_timestamp_ms=ms(explicit),
            is_pending=is_pending,
            retention_ms=RETENTION,
            semantics=(Semantics.COORDINATOR, Semantics.SCALA)[log_partition],
        )
    tables = {
        name: pa.Table.from_pylist(of_table, nullable(SCHEMAS[name]))
        for name, of_table in rows.items()
    }
    view = query(in_duckdb(SELECTS["expiring_offsets"], RETENTION), Kept(NOW, tables))
    answers = {
        row["group_id"]: Expiry(at_ms=ms(row["expires_at"]), reason=ExpiryReason(row["reason"]))
        for row in view.to_pylist()
    }
    assert answers == expected
    assert {answer.reason for answer in answers.values()} == set(ExpiryReason)


@pytest.mark.parametrize("minutes", [2**31 - 1, 1])
def test_a_retention_of_any_length_is_evaluated(tmp_path: Path, minutes: int) -> None:
    """Clusters that keep offsets for ever have the greatest one."""
    tables = create_tables(tmp_path, offsets_retention_ms=str(minutes * 60_000))
    apply_micro_batch(
        tables,
        groups=[{"group_id": "g"}],
        group_offsets=[{"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 5}],
        progress=[{"next_offset": 9}],
    )
    reader = TableReader(tables)
    assert expiries(reader, reader.moment).num_rows == (minutes == 1)
    assert Evaluation.of(reader).lags.num_rows == 1
    assert Snapshot(reader).expiring_offsets().num_rows == 1


def test_an_external_group_does_not_hide_the_offsets_of_a_group_of_its_name(
    tmp_path: Path,
) -> None:
    tables = create_tables(tmp_path, external="true")
    row: dict[str, Any] = {"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 5}
    apply_micro_batch(tables, group_offsets=[row], progress=[{"next_offset": 9}])
    batch = {"query_id": "q", "batch_id": 1, "is_repeat": False}
    batch |= {"commit_timestamp": NOW, "day": NOW.date()}
    write_rows(tables, "external_offsets", [row | batch])
    reader = TableReader(tables)
    assert reader.read("groups")["group_id"].to_pylist() == ["g"]
    reasons = [ExpiryReason.NO_GROUP.value]
    assert Snapshot(reader).expiring_offsets()["reason"].to_pylist() == reasons
    assert Snapshot(reader).queried("expiring_offsets")["reason"].to_pylist() == reasons


def test_an_expiry_time_that_no_engine_can_show_is_the_last_one(tmp_path: Path) -> None:
    tables = create_tables(tmp_path)
    late = datetime(9999, 12, 1, tzinfo=timezone.utc)
    apply_micro_batch(
        tables,
        groups=[{"group_id": "g"}],
        group_offsets=[
            {"group_id": "g", "topic": "t", "partition": 0}
            | {"committed_offset": 5, "commit_timestamp": late}
        ],
        progress=[{"next_offset": 9}],
    )
    (row,) = Snapshot(TableReader(tables)).expiring_offsets(31 * 86_400_000).to_pylist()
    assert row["expires_at"] == datetime(9999, 12, 31, 23, 59, 59, 999_000, timezone.utc)
