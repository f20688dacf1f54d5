"""The view over committed offsets and samples of logs."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pytest

from coordinator_state.insight.lag import NO_SAMPLE, TOO_OLD, TOPIC_GONE
from coordinator_state.replay.partitioner import partition_for
from streaming.lag.group_lag import LAG_ROW, group_lag, lag_totals
from streaming.lag.unread_logs import unread_logs
from streaming.tables.reader import TableReader
from streaming.tables.schemas import TABLES
from streaming.views.snapshot import Snapshot
from tests.support.tables import sample_rows
from tests.support.tables.sample_rows import offset_row
from tests.support.tables.status_tables import NOW, at
from tests.support.tables.tables_folder import (
    Row,
    apply_micro_batch,
    backdate,
    create_tables,
    write_rows,
)
from tests.support.tables.topic_tables import PARTLY, SILENT, UNREAD, create_topic_tables

LOG_PARTITIONS = 4


def offset(group_id: str, committed_offset: int, topic: str = "t", **fields: Any) -> Row:
    place = {"log_partition": partition_for(group_id, LOG_PARTITIONS)}
    return offset_row(group_id, committed_offset, at(30), topic) | place | fields


def sample(seconds_ago: float, end: int | None, topic: str = "t", **fields: Any) -> Row:
    return sample_rows.sample(at(seconds_ago), end, topic, **fields)


@pytest.fixture(scope="module")
def built_tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = create_tables(tmp_path_factory.mktemp("built"), log_partitions=str(LOG_PARTITIONS))
    groups = ["ahead", "behind", "lost", "gone", "unseen", "nowhere"]
    orphan = (partition_for("behind", LOG_PARTITIONS) + 1) % LOG_PARTITIONS
    apply_micro_batch(
        folder,
        progress=[row | {"updated_at": at(10)} for row in PROGRESS],
        groups=[
            {"group_id": group, "log_partition": partition_for(group, LOG_PARTITIONS)}
            for group in groups
        ],
        group_offsets=[
            offset("ahead", 101),
            offset("behind", 40),
            offset("behind", 5, log_partition=orphan),
            offset("lost", 3),
            offset("gone", 1, "old"),
            offset("unseen", 1, "new"),
            offset("without a group", 1),
            # As clients commit "no position"; OffsetFetch answers it as no offset.
            offset("nowhere", -1001),
        ],
        pending_offsets=[
            offset("behind", 60, client_id="app"),
            offset("behind", 50, producer_id=8, commit_timestamp=at(29)),
        ],
    )
    samples = [
        sample(60, 20),
        sample(40, 20, log_start_offset=10),
        sample(20, 60, log_start_offset=10),
        sample(0, 100, log_start_offset=10, last_stable_offset=70),
        *(sample(50, 5, "old"), sample(40, None, "old")),
    ]
    write_rows(folder, "log_offsets", samples)
    return folder


@pytest.fixture
def tables(built_tables: str, tmp_path: Path) -> str:
    """A copy that a test may change."""
    return str(copytree(built_tables, tmp_path / "tables"))


PROGRESS = [{"log_partition": number} for number in range(LOG_PARTITIONS)]


def rows_of(tables: str, **options: Any) -> dict[str, dict[str, Any]]:
    lags = group_lag(TableReader(tables), **{"at": NOW, **options})
    assert lags.schema == LAG_ROW
    return {row["group_id"]: row for row in lags.to_pylist()}


def test_a_row_says_how_far_a_group_is_behind(tables: str) -> None:
    rows = rows_of(tables)
    assert list(rows) == ["ahead", "behind", "gone", "lost", "unseen"]
    assert rows["behind"] == dict.fromkeys(LAG_ROW.names) | {
        **{"group_id": "behind", "topic": "t", "partition": 0, "topic_state": "present"},
        **{"group_type": "classic", "group_state": "Empty", "committed_offset": 40},
        **{"pending_offset": 60, "pending_since": at(30)},
        **{"pending_producer_id": 7, "pending_client_id": "app"},
        **{"log_start_offset": 10, "last_stable_offset": 70, "log_end_offset": 100},
        **{"lag": 60, "is_lag_lower_bound": False, "lag_to_last_stable": 30, "data_lost": 0},
        # Half way from 20 at -40 s to 60 at -20 s.
        **{"time_lag_ms": 30_000, "time_lag_at_least_ms": 30_000},
        **{"commit_timestamp": at(30), "commit_age_ms": 30_000, "sampled_at": NOW},
        # There is no retention margin: the first 10 records were deleted between -60 s and -40 s,
        # and record 10 is older. Nor is there a rate, since the tables do not reach back, nor a
        # `known_until`, since no log partition of the offsets topic was sampled.
    }


def test_what_is_not_known_has_a_reason(tables: str) -> None:
    rows = rows_of(tables)
    assert (rows["ahead"]["lag"], rows["ahead"]["time_lag_ms"]) == (0, 0)
    lost = rows["lost"]
    assert (lost["lag"], lost["data_lost"], lost["time_lag_ms"]) == (97, 7, None)
    assert lost["time_lag_unknown"] == TOO_OLD
    # The oldest sample.
    assert lost["time_lag_at_least_ms"] == 60_000
    for group, state, reason in (("gone", "gone", TOPIC_GONE), ("unseen", None, NO_SAMPLE)):
        row = rows[group]
        assert (row["topic_state"], row["time_lag_unknown"]) == (state, reason)
        assert {row[name] for name in ("lag", "log_end_offset", "sampled_at")} == {None}


def test_lag_as_of_a_moment_and_of_some_groups(tables: str) -> None:
    (row,) = rows_of(tables, at=at(10), group_ids=["behind"]).values()
    assert (row["log_end_offset"], row["lag"], row["time_lag_ms"]) == (60, 20, 20_000)
    history = timedelta(seconds=15)
    (row,) = rows_of(tables, at=at(10), group_ids=["behind"], history=history).values()
    assert (row["time_lag_ms"], row["time_lag_unknown"]) == (None, TOO_OLD)


def test_a_moment_and_the_times_of_samples_are_rounded_alike(tables: str) -> None:
    """Otherwise a time lag is up to 1.5 ms off."""
    row = rows_of(tables, at=NOW + timedelta(microseconds=600))["behind"]
    assert row["time_lag_ms"] == 30_000


@pytest.mark.parametrize("seconds_ago", [300, 3_600, 86_400])
def test_older_samples_are_found_where_a_group_waits_for_long(
    tables: str, seconds_ago: int
) -> None:
    ends = ((2 * seconds_ago, 0), (seconds_ago, 40), (seconds_ago / 2, 90), (0, 100))
    samples = [sample(ago, end) for ago, end in ends]
    write_rows(tables, "log_offsets", [*samples, sample(seconds_ago, 5, "new")])
    rows = rows_of(tables)
    assert rows["behind"]["time_lag_ms"] == 1_000 * seconds_ago
    assert rows["unseen"]["lag"] == 4
    assert (rows["ahead"]["time_lag_ms"], rows["lost"]["lag"]) == (0, 97)


def test_the_log_end_is_never_below_a_later_commit(tables: str) -> None:
    """The sample is of 20 s ago, the commit of 10 s ago, or of well before the sample."""
    for committed_at, log_end_offset in ((at(10), 75), (at(40), 60)):
        apply_micro_batch(
            tables,
            progress=PROGRESS,
            group_offsets=[offset("behind", 75, commit_timestamp=committed_at)],
        )
        write_rows(tables, "log_offsets", [sample(60, 20), sample(20, 60)])
        row = rows_of(tables)["behind"]
        assert (row["committed_offset"], row["lag"]) == (75, 0)
        assert row["log_end_offset"] == row["last_stable_offset"] == log_end_offset
        assert row["sampled_at"] == at(20)


def test_the_owner_is_the_member_that_the_partition_is_assigned_to(tables: str) -> None:
    partition = {"topic": "t", "partition": 0}
    place = partition_for("behind", LOG_PARTITIONS)
    member = {"group_id": "behind", "log_partition": place, "client_id": "c"}
    members: list[Row] = [
        {"member_id": "a", "assignment": [partition], "client_host": "/10.0.0.1"},
        {"member_id": "b", "assignment": [partition], "client_host": "/10.0.0.2"},
        {"member_id": "c", "assignment": [{"topic": "t", "partition": 1}]},
        {"member_id": "d", "assignment": [{"topic_id": "T", "partition": 0}]},
        {"member_id": "e", "assignment": None},
        {"member_id": "f", "assignment": [partition], "group_id": "other"},
    ]
    rows = [member | row for row in members]
    apply_micro_batch(tables, progress=PROGRESS, group_members=rows)
    row = rows_of(tables)["behind"]
    assert (row["member_id"], row["client_id"], row["client_host"]) == ("b", "c", "/10.0.0.2")
    assert rows_of(tables)["ahead"]["member_id"] is None


def test_rates_say_when_a_group_has_caught_up(tmp_path: Path) -> None:
    now = datetime.now(timezone.utc)
    folder = create_tables(tmp_path, log_partitions=str(LOG_PARTITIONS))
    offsets = {"faster": (0, 600), "slower": (0, 150), "reset": (500, 200), "caught up": (300, 900)}
    before = [offset(group, then) for group, (then, _) in offsets.items()]
    new = [*(offset(group, at) for group, (_, at) in offsets.items()), offset("new", 800)]
    states = [row | {"state": "current"} for row in PROGRESS]
    states[partition_for("slower", LOG_PARTITIONS)]["state"] = "loading"
    groups = [{"group_id": row["group_id"], "log_partition": row["log_partition"]} for row in new]
    apply_micro_batch(folder, progress=states, groups=groups, group_offsets=before)
    for table in TABLES:
        backdate(folder, table, now - timedelta(minutes=6))
    apply_micro_batch(folder, progress=states, group_offsets=new)
    first, last = now - timedelta(seconds=320), now - timedelta(seconds=20)
    samples = [sample_rows.sample(first, 600), sample_rows.sample(last, 900)]
    write_rows(folder, "log_offsets", samples)
    rows = rows_of(folder, at=now)
    assert {row["produce_rate_per_s"] for row in rows.values()} == {1.0}
    assert {
        group: (row["commit_rate_per_s"], row["time_to_catch_up_ms"]) for group, row in rows.items()
    } == {
        # 300 records behind, by 1 a second faster than they come.
        "faster": (2.0, 300_000),
        # Its log partition was still being loaded five minutes ago.
        "slower": (None, None),
        "reset": (-1.0, None),
        "caught up": (2.0, 0),
        "new": (None, None),
    }


def test_the_tables_are_behind_their_own_log(tables: str) -> None:
    place = partition_for("behind", LOG_PARTITIONS)
    own: dict[str, Any] = {"topic": "__consumer_offsets", "partition": place}
    user = [sample(60, 20), sample(0, 100)]
    for next_offset, known_until in ((40, NOW), (30, at(10)), (10, None)):
        apply_micro_batch(tables, progress=[row | {"next_offset": next_offset} for row in PROGRESS])
        ends = [sample(ago, end, **own) for ago, end in ((60, 20), (20, 20), (0, 40))]
        write_rows(tables, "log_offsets", [*user, *ends])
        assert rows_of(tables)["behind"]["known_until"] == known_until


def test_totals_are_sums_and_maxima(tables: str) -> None:
    lags = group_lag(TableReader(tables), at=NOW)
    by_group = {row["group_id"]: row for row in lag_totals(lags, "group").to_pylist()}
    behind, gone = by_group["behind"], by_group["gone"]
    assert (behind["partitions"], behind["lag"], behind["max_time_lag_ms"]) == (1, 60, 30_000)
    assert (gone["partitions"], gone["partitions_unknown"], gone["lag"]) == (1, 1, None)
    two = pa.concat_tables([lags, lags.set_column(2, "partition", pa.array([1] * 5, pa.int32()))])
    by_topic = {row["group_id"]: row for row in lag_totals(two, "topic").to_pylist()}
    behind = by_topic["behind"]
    assert (behind["topic"], behind["partitions"], behind["lag"]) == ("t", 2, 120)
    assert (behind["max_lag"], behind["group_state"], behind["data_lost"]) == (60, "Empty", 0)


# --- partitions that are sampled and that no group reads


@pytest.mark.parametrize(
    ("with_unread", "expected"),
    [
        (True, {(UNREAD, 0): 10, (UNREAD, 1): 5, (SILENT, 0): 10, (PARTLY, 2): 5}),
        (False, {(SILENT, 0): 10}),
    ],
)
def test_logs_without_a_committed_offset(
    tmp_path: Path, with_unread: bool, expected: dict[tuple[str, int], int]
) -> None:
    """The log ends and the records that are produced per second."""
    reader = TableReader(create_topic_tables(tmp_path, NOW, with_unread=with_unread))
    lags = group_lag(reader, at=NOW)
    rows = unread_logs(reader, NOW, lags).to_pylist()
    rates = {(row["topic"], row["partition"]): row["produce_rate_per_s"] for row in rows}
    assert rates == pytest.approx(expected)
    assert {(row["state"], row["log_end_offset"]) for row in rows} == {("present", 1_000)}
    assert unread_logs(reader, NOW.replace(year=2025), lags).num_rows == 0


def test_samples_of_other_logs_change_neither_lag_nor_status(tmp_path: Path) -> None:
    snapshots = []
    for with_unread in (True, False):
        folder = create_topic_tables(tmp_path / str(with_unread), NOW, with_unread=with_unread)
        reader = TableReader(folder)
        snapshot = Snapshot(reader, at=NOW)
        snapshots.append((snapshot.lags, snapshot.evaluation.statuses))
    assert snapshots[0] == snapshots[1]
