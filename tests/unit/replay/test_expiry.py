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


CASES = [
    (SIMPLE, BY_COMMIT),
    (group(), BY_EMPTY_GROUP),
    (group(state_timestamp_ms=None), BY_COMMIT),
    (group(protocol_type="connect", subscribed=None), BY_EMPTY_GROUP),
    (group(state="Stable", subscribed=["t"]), SUBSCRIBED),
    (group(state="Stable", subscribed=["t", "u"]), SUBSCRIBED),
    (group(state="Stable", subscribed=["u"]), BY_COMMIT),
    (group(state="Stable", subscribed=None), ACTIVE_GROUP),
    (group(state="Stable", protocol_type="connect", subscribed=None), ACTIVE_GROUP),
    (group(state="PreparingRebalance"), ACTIVE_GROUP),
    (group("consumer", "Reconciling", subscribed=["t"]), SUBSCRIBED),
    (group("consumer", "Empty"), BY_COMMIT),
    (group("streams", "NotReady", "streams"), BY_COMMIT),
    (group("share", "Empty", "share"), Expiry(at_ms=None, reason=ExpiryReason.SHARE_GROUP)),
    # Members without a protocol type make it a type all the same.
    (group(state="Stable", protocol_type="", subscribed=None), ACTIVE_GROUP),
    (None, Expiry(at_ms=None, reason=ExpiryReason.NO_GROUP)),
]


def expiry_of(state: Group | None, semantics: Semantics, **offset: Any) -> Expiry:
    """The expiry of an offset of topic `t`."""
    return expiry(
        state,
        "t",
        **{"expire_timestamp_ms": None, "is_pending": False, **offset},
        commit_timestamp_ms=COMMITTED,
        retention_ms=RETENTION,
        semantics=semantics,
    )


@pytest.mark.parametrize("semantics", list(Semantics))
@pytest.mark.parametrize(("state", "expected"), CASES)
def test_by_type_and_state(semantics: Semantics, state: Group | None, expected: Expiry) -> None:
    """As `testOffsetExpiration…` of GroupMetadataManagerTest and `testCleanupExpiredOffsets…`."""
    assert expiry_of(state, semantics) == expected
    # The expire timestamp of an old client replaces the retention.
    explicit = expected if expected.at_ms is None else Expiry(at_ms=7, reason=ExpiryReason.EXPLICIT)
    assert expiry_of(state, semantics, expire_timestamp_ms=7) == explicit


def test_of_an_offset_beside_a_pending_one() -> None:
    """As `testCleanupExpiredOffsetsWithPendingTransactionalOffsets`."""
    pending = Expiry(at_ms=None, reason=ExpiryReason.PENDING)
    assert expiry_of(group(), Semantics.COORDINATOR, is_pending=True) == pending
    # KAFKA-19163 is fixed in the new coordinator only.
    assert expiry_of(SIMPLE, Semantics.SCALA, is_pending=True) == BY_COMMIT


def row_of(group_id: str = "g", **fields: Any) -> dict[str, Any]:
    """A row of a group or of an offset."""
    return {"group_id": group_id, "log_partition": partition_for(group_id, 4), **fields}


def offset_row(group_id: str = "g", topic: str = "t", **fields: Any) -> dict[str, Any]:
    return row_of(group_id, topic=topic, partition=0, committed_offset=5, **fields)


def tables_of(folder: Path, *offsets: dict[str, Any], **settings: str) -> str:
    """Tables with these offsets and their groups, except the group `gone`."""
    tables = create_tables(folder, log_partitions="4", **settings)
    live = {"group_type": "consumer", "state": "Stable", "subscribed_topics": ["t"]}
    groups = {row["group_id"] for row in offsets} - {"gone"}
    apply_micro_batch(
        tables,
        groups=[row_of(name, **(live if name == "live" else {})) for name in sorted(groups)],
        group_offsets=list(offsets),
        progress=[{"log_partition": n, "next_offset": 9} for n in range(4)],
    )
    return tables


def test_the_view_has_the_offsets_that_expire_first_and_may_be_that_of_one_group(
    tmp_path: Path,
) -> None:
    days = timedelta(days=1)
    tables = tables_of(
        tmp_path,
        offset_row("simple", commit_timestamp=NOW - 6 * days),
        offset_row("live", commit_timestamp=NOW - 30 * days),
        offset_row("live", "u", commit_timestamp=NOW - 6 * days, expire_timestamp=NOW),
        offset_row("gone", commit_timestamp=NOW - 30 * days),
    )
    snapshot = Snapshot(TableReader(tables))
    table = snapshot.expiring_offsets(retention_ms=7 * 86_400_000)

    assert table.schema == VIEWS["expiring_offsets"]
    columns = ("group_id", "topic", "expires_at", "reason")
    assert list(zip(*(table[name].to_pylist() for name in columns), strict=True)) == [
        ("live", "u", NOW, ExpiryReason.EXPLICIT.value),
        ("simple", "t", NOW + days, ExpiryReason.COMMIT.value),
        ("gone", "t", None, ExpiryReason.NO_GROUP.value),
        ("live", "t", None, ExpiryReason.SUBSCRIBED.value),
    ]
    rows = snapshot.expiring_offsets(retention_ms=1, group_id="gone")
    assert rows["group_id"].to_pylist() == ["gone"]


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
            else group(group_type, state, protocol or "", topics, ms(emptied)),
            "t",
            commit_timestamp_ms=moment_ms(NOW),
            expire_timestamp_ms=ms(explicit),
            is_pending=is_pending,
            retention_ms=RETENTION,
            semantics=(Semantics.COORDINATOR, Semantics.SCALA)[log_partition],
        )
    tables = {
        name: pa.Table.from_pylist(table_rows, nullable(SCHEMAS[name]))
        for name, table_rows in rows.items()
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
    reader = TableReader(
        tables_of(tmp_path, offset_row(), offsets_retention_ms=str(minutes * 60_000))
    )
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
    late = datetime(9999, 12, 1, tzinfo=timezone.utc)
    tables = tables_of(tmp_path, offset_row(commit_timestamp=late))
    (row,) = Snapshot(TableReader(tables)).expiring_offsets(31 * 86_400_000).to_pylist()
    assert row["expires_at"] == datetime(9999, 12, 31, 23, 59, 59, 999_000, timezone.utc)
