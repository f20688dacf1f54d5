"""In what state groups are, and why, by the rules of our own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from coordinator_state.apply.columns import with_columns
from coordinator_state.insight.group_status import StatusRules
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.lag.evaluation import Evaluation
from streaming.lag.group_statuses import group_statuses
from streaming.lag.group_verdicts import silent_facts
from streaming.tables.reader import TableReader
from tests.support.tables.incident_tables import STEP_S, Cluster
from tests.support.tables.sample_rows import sample
from tests.support.tables.status_tables import NOW, at, create_status_tables, offset
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables, write_rows


@pytest.fixture
def tables(tmp_path: Path) -> str:
    return create_status_tables(tmp_path)


def statuses(tables: str) -> dict[str, Row]:
    rows = Evaluation.of(TableReader(tables), at=NOW).statuses.to_pylist()
    return {row["group_id"]: row for row in rows}


def status_of_group(tables: str, **rows: list[Row]) -> Row:
    """The status of the group `g`, which is stable and has no offsets unless `rows` says more."""
    group = {"member_count": 1, "state": "Stable"}
    batch = {
        name: [{"group_id": "g"} | row for row in group_rows]
        for name, group_rows in ({"groups": [group], "group_offsets": []} | rows).items()
    }
    apply_micro_batch(tables, progress=[{"updated_at": NOW}], **batch)
    return statuses(tables)["g"]


def test_a_group_is_in_the_state_of_its_worst_partition(tables: str) -> None:
    by_group = statuses(tables)
    assert {group: row["status"] for group, row in by_group.items()} == {
        "back": "REWIND",
        "idle": "IDLE",
        "loop": "REBALANCING_LOOP",
        "new": "OK",
        "nothing": "IDLE",
        "old": "DATA_LOSS",
    }
    old, loop = by_group["old"], by_group["loop"]
    assert (old["topic"], old["partition"], old["partitions"]) == ("t", 1, 2)
    assert (old["partitions_not_ok"], old["lag"]) == (2, 98)
    assert (loop["topic"], loop["partitions_not_ok"]) == (None, 0)
    assert loop["reason"] == "8 rebalances in 5 min, the last 0 s ago; generation 40"
    assert by_group["back"]["reason"].startswith("went back 30 s ago from 90 to 5; now 6;")
    assert by_group["new"]["reason"] == "no commit yet; 1 member without a partition"


def test_nothing_is_said_of_a_group_whose_log_partition_is_not_read_to_its_end(
    tables: str,
) -> None:
    """The end of `__consumer_offsets` has been ahead of the tables for five minutes."""
    samples = [sample(at(ago), 900, OFFSETS_TOPIC) for ago in (300, 100, 0)]
    write_rows(tables, "log_offsets", samples)
    assert {row["status"] for row in statuses(tables).values()} == {"UNKNOWN"}


def test_the_rates_and_the_lag_of_a_reason_are_of_the_same_partition(tmp_path: Path) -> None:
    cluster = Cluster(seconds=-330)
    cluster.members("slow", ("slow", 2))
    for t in range(-330, 301, STEP_S):
        cluster.is_run_up = t % 30 == 0
        end = cluster.produce("slow", 500)
        cluster.commit("slow", end - max(t, 0) * 50)
        end = cluster.produce("slow", 500, 1)
        cluster.commit("slow", end - 400 - max(t, 0), 1)
        cluster.step()
    snapshots = cluster.snapshots(create_tables(tmp_path / "slow"))
    rows = [snapshots.statuses(seconds)["slow"] for seconds in (0, 300)]
    assert [(row["status"], row["reason"]) for row in rows] == [
        ("OK", "400 behind, oldest 4 s"),
        (
            "WARN",
            "slow:0: reads 50 records/s, producers write 100 records/s; 15,000 behind, oldest "
            "2.5 min, +50/s; the group: 15,700 behind, oldest 2.5 min, +51/s",
        ),
    ]


def test_growth_ends_a_minute_after_the_producers_do(tmp_path: Path) -> None:
    cluster = Cluster()
    for t in range(0, 801, STEP_S):
        if t == 0:
            cluster.members("g")
        end = cluster.produce("g", 50 if t <= 600 else 0)
        if t < 300:
            cluster.commit("g", end)
        cluster.step(10)
    snapshots = cluster.snapshots(create_tables(tmp_path))
    rows = {t: snapshots.statuses(t)["g"] for t in (600, 640, 670, 800)}
    assert {row["status"] for row in rows.values()} == {"STOP"}
    assert [row["trend"] for row in rows.values()] == ["growing", "growing", "steady", "steady"]
    oldest = [rows[t]["reason"].rpartition("oldest ")[2] for t in (600, 670, 800)]
    assert oldest == ["5.1 min, +10/s", "6.2 min", "8.4 min"]


def test_members_are_silent_although_the_log_ends_are_unknown(tables: str) -> None:
    write_rows(tables, "log_offsets", [sample(at(0), 0, OFFSETS_TOPIC)])
    row = status_of_group(
        tables,
        group_members=[{"member_id": "m", "assignment": [{"topic": "t", "partition": 7}]}],
        coordinator_records=[{"record_type": 2, "record_timestamp": at(300)}],
    )
    assert (row["status"], row["lag"], row["partitions"]) == ("WARN", None, 0)
    assert row["reason"] == (
        "no commit from 1 member with 1 partition for 5 min; the log ends are unknown"
    )


@pytest.mark.parametrize(
    ("group_type", "status", "reason"),
    [
        ("share", "UNKNOWN", "2 members; no progress of the share group is known"),
        ("streams", "UNKNOWN", "no commit yet from 2 members"),
        ("classic", "OK", "no commit yet; 2 members without a partition"),
    ],
)
def test_a_group_whose_progress_is_not_in_the_tables(
    tables: str, group_type: str, status: str, reason: str
) -> None:
    group = {"group_type": group_type, "member_count": 2, "state": "Stable"}
    row = status_of_group(tables, groups=[group])
    assert row["status"] == status
    assert row["reason"].startswith(reason)


def test_a_group_that_is_deleted_between_two_reads_is_dead(tables: str, tmp_path: Path) -> None:
    lags = Evaluation.of(TableReader(tables), at=NOW).lags
    columns = {"text": pa.repeat("", len(lags)), "has_lag_text": pa.repeat(True, len(lags))}
    partitions = with_columns(lags, columns)
    later = TableReader(create_tables(tmp_path / "later"))
    groups = group_statuses(later, NOW, None, StatusRules(), partitions, None).to_pylist()
    by_group = {row["group_id"]: row for row in groups}
    assert by_group.keys() == {"back", "idle", "loop", "old"}
    assert {row["group_state"] for row in by_group.values()} == {"Dead"}
    assert (by_group["old"]["status"], by_group["old"]["lag"]) == ("DATA_LOSS", 98)


def test_an_idle_partition_hides_nothing(tables: str) -> None:
    """The last commit of one partition was long ago, and it is caught up."""
    offsets = [offset("g", 100, 400), offset("g", 90, 4, partition=1)]
    row = status_of_group(tables, groups=[{}], group_offsets=offsets)
    assert (row["status"], row["lag"]) == ("OK", 10)
    lags = Evaluation.of(TableReader(tables), at=NOW).group_lag()
    assert lags["status"].to_pylist() == ["IDLE", "OK"]


def test_an_unknown_time_of_the_assignment_stays_unknown() -> None:
    row = {"topic": "t", "member_id": "m", "assigned_ms": None}
    silent = silent_facts([{**row, "partition": partition} for partition in (0, 1)])
    assert (silent.members, silent.partitions, silent.assigned_ms) == (1, 2, None)
