"""The lag and the status of share groups, from `share_partitions`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.insight.lag import NO_DELIVERY_COUNT, NO_START_OFFSET, TOPIC_GONE
from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC
from streaming.kafka.partition_offsets import TopicPartition
from streaming.lag.evaluation import Evaluation
from streaming.lag.group_lag import LAG_ROW, group_lag
from streaming.run.sampling import ReadPartitions
from streaming.tables.reader import TableReader
from streaming.tables.schemas import TABLES
from streaming.views.diagnosis import explained
from tests.support.tables.sample_rows import sample
from tests.support.tables.share_tables import (
    GROUP,
    TOPIC,
    create_share_tables,
    share_partition,
    write_share_rows,
)
from tests.support.tables.status_tables import NOW, at
from tests.support.tables.tables_folder import Row, backdate, write_rows

UNKNOWN = {"lag": None, "time_lag_ms": None, "time_lag_at_least_ms": None, "data_lost": None}


def partition(start_offset: int, delivered: int | None = 0, **fields: Any) -> Row:
    return share_partition(start_offset, delivered, **{"at": at(3), **fields})


def rows_of(tables: str, **options: Any) -> list[Row]:
    lags = group_lag(TableReader(tables), **{"at": NOW, **options})
    assert lags.schema == LAG_ROW
    return lags.to_pylist()


def row_of(folder: Path, *partitions: Row, **options: Any) -> Row:
    (row,) = rows_of(create_share_tables(folder, NOW, [*partitions], **options))
    return row


def status_of(tables: str) -> tuple[str, str]:
    statuses = Evaluation.of(TableReader(tables), at=NOW).statuses.to_pylist()
    (row,) = (row for row in statuses if row["group_id"] == GROUP)
    return row["status"], row["reason"]


OF_OTHERS: Row = {"topic": TOPIC, "partition": 0}


def test_the_lag_is_without_the_records_that_are_delivered(tmp_path: Path) -> None:
    row = row_of(tmp_path, partition(60, 15))
    assert row == dict.fromkeys(LAG_ROW.names) | {
        **{"group_id": GROUP, "topic": TOPIC, "partition": 0, "topic_state": "present"},
        **{"group_type": "share", "group_state": "Stable", "committed_offset": 60},
        **{"log_start_offset": 0, "last_stable_offset": 100, "log_end_offset": 100},
        **{"lag": 25, "is_lag_lower_bound": False, "lag_to_last_stable": 25, "data_lost": 0},
        # The record at the start offset was written 40 s ago.
        **{"time_lag_ms": 40_000, "time_lag_at_least_ms": 40_000},
        **{"commit_timestamp": at(3), "commit_age_ms": 3_000, "sampled_at": NOW},
        **{"member_id": "m0", "client_id": "c", "client_host": "/127.0.0.1", "known_until": NOW},
    }


def batches(*triples: tuple[int, int, int]) -> dict[str, list[Row]]:
    """Acknowledged batches behind the start offset: first and last offset, and state."""
    names = ("first_offset", "last_offset", "delivery_state")
    rows = [dict(zip(names, triple, strict=True)) | {"delivery_count": 1} for triple in triples]
    return {"state_batches": rows}


def unknown(committed_offset: int | None, reason: str) -> Row:
    return UNKNOWN | {
        **{"committed_offset": committed_offset, "time_lag_unknown": reason},
        "log_end_offset": 100,
    }


def waits_at(offset: int) -> Row:
    """20 records wait. Record `n` was written `100 - n` seconds ago."""
    return {"committed_offset": 60, "lag": 20, "time_lag_ms": 1_000 * (100 - offset)}


CAUGHT_UP = {"lag": 0, "time_lag_ms": 0, "log_end_offset": 100}
CASES: dict[str, tuple[Row, Row]] = {
    # A group has caught up before its start offset moves.
    "all delivered": (partition(60, 40), CAUGHT_UP),
    "all but one": (partition(60, 39), {"lag": 1, "time_lag_ms": 40_000, "log_end_offset": 100}),
    "more than in the sample": (partition(60, 45), CAUGHT_UP),
    # An acknowledgement after the sample proves a longer log.
    "after the sample": (
        partition(60, 45, at=NOW + timedelta(seconds=1)),
        {"lag": 0, "log_end_offset": 105, "last_stable_offset": 105},
    ),
    # The time lag is that of the first record that is not delivered. The stored start offset is
    # late by one acknowledgement.
    "no batches": (partition(60, 20), waits_at(60)),
    "batches in a row": (
        partition(60, 20, **batches((60, 69, 2), (70, 74, 4), (75, 79, 2), (80, 99, 0))),
        waits_at(80),
    ),
    "a gap": (partition(60, 20, **batches((60, 69, 2), (71, 74, 2))), waits_at(70)),
    "released": (partition(60, 20, **batches((60, 69, 0), (70, 79, 2))), waits_at(60)),
    "a gap at first": (partition(60, 20, **batches((61, 69, 2))), waits_at(60)),
    # A record that waits for its write to the dead-letter topic is not delivered.
    "archiving": (partition(60, 20, **batches((60, 69, 2), (70, 79, 3))), waits_at(70)),
    "an earlier batch": (partition(60, 20, **batches((55, 64, 2))), waits_at(65)),
    # The lag is unknown as in Kafka.
    "no start offset": (partition(-1, None), unknown(None, NO_START_OFFSET)),
    "no start offset but a count": (partition(-1, 0), unknown(None, NO_START_OFFSET)),
    "no count": (partition(60, None), unknown(60, NO_DELIVERY_COUNT)),
    # The time of the last acknowledgement has fallbacks.
    "written": (partition(60, at=None, write_timestamp=at(7)), {"commit_timestamp": at(7)}),
    "created": (partition(60, at=None, create_timestamp=at(8)), {"commit_timestamp": at(8)}),
}
STATUSES: dict[str, tuple[Row, str, str]] = {
    "at the log end": (partition(100), "OK", "caught up"),
    "delivered": (partition(60, 40), "OK", "caught up"),
    "behind": (partition(80, 5), "OK", "15 behind, oldest 20 s"),
    "an old acknowledgement": (partition(1, 0, at=at(400)), "OK", "99 behind, oldest 99 s"),
    "not counted": (partition(60, None), "UNKNOWN", NO_DELIVERY_COUNT),
}


@pytest.fixture(scope="module")
def all_cases(tmp_path_factory: pytest.TempPathFactory) -> TableReader:
    """A share group for each case of `CASES` and `STATUSES`."""
    cases: Mapping[str, tuple[Any, ...]] = {**CASES, **STATUSES}
    partitions = [row | {"group_id": name} for name, (row, *_) in cases.items()]
    partitions.append(partition(60, at=None, group_id="no time"))
    return TableReader(create_share_tables(tmp_path_factory.mktemp("share"), NOW, partitions))


@pytest.fixture(scope="module")
def lag_by_group(all_cases: TableReader) -> dict[str, Row]:
    return {row["group_id"]: row for row in group_lag(all_cases, at=NOW).to_pylist()}


@pytest.mark.parametrize("name", CASES)
def test_the_lag_of_a_share_partition(lag_by_group: dict[str, Row], name: str) -> None:
    assert lag_by_group[name] == lag_by_group[name] | CASES[name][1]


def test_the_status_of_a_share_group(all_cases: TableReader) -> None:
    statuses = {
        row["group_id"]: (row["status"], row["reason"])
        for row in Evaluation.of(all_cases, at=NOW).statuses.to_pylist()
    }
    assert {name: statuses[name] for name in STATUSES} == {
        name: (status, reason) for name, (_, status, reason) in STATUSES.items()
    }


def test_a_last_acknowledgement_without_a_time_is_as_old_as_the_tables(
    all_cases: TableReader, lag_by_group: dict[str, Row]
) -> None:
    assert lag_by_group["no time"]["commit_timestamp"] == all_cases.moment


def test_only_the_member_that_has_a_partition_alone_is_named(tmp_path: Path) -> None:
    row = row_of(tmp_path, partition(60), members=2)
    assert (row["member_id"], row["client_id"], row["client_host"]) == (None, None, None)


def test_share_partitions_that_cannot_be_joined_have_no_row(tmp_path: Path) -> None:
    partitions = [
        partition(1, partition=0, topic=None),
        # The topic was deleted and created again.
        partition(900, topic_id="old", at=at(60)),
        partition(70, topic_id="T", at=at(6)),
        partition(5, group_id="no share group"),
    ]
    share = {"group_id": GROUP, "group_type": "share", "state": "Empty"}
    # An earlier group of this name committed it.
    earlier = OF_OTHERS | {"group_id": GROUP, "committed_offset": 3}
    tables = create_share_tables(tmp_path, NOW, partitions)
    groups = [share, {"group_id": "no share group"}]
    write_share_rows(tables, NOW, partitions, groups=groups, group_offsets=[earlier])
    (row,) = rows_of(tables)
    assert (row["group_id"], row["committed_offset"], row["lag"]) == (GROUP, 70, 30)
    assert rows_of(tables, group_ids=["no share group"]) == []
    assert rows_of(tables, group_ids=[GROUP]) == [row]


def test_share_groups_are_among_the_others(tmp_path: Path) -> None:
    tables = create_share_tables(tmp_path, NOW, [partition(60, 15)])
    write_share_rows(
        tables,
        NOW,
        [partition(60, 15)],
        groups=[
            {"group_id": GROUP, "group_type": "share", "state": "Empty"},
            *({"group_id": "a"}, {"group_id": "z"}),
        ],
        group_offsets=[
            OF_OTHERS | {"group_id": group, "committed_offset": committed}
            for group, committed in (("a", 90), ("z", 50))
        ],
    )
    lags = [(row["group_id"], row["lag"], row["known_until"]) for row in rows_of(tables)]
    assert lags == [("a", 10, NOW), (GROUP, 25, NOW), ("z", 50, NOW)]


def test_rates_are_those_of_the_start_offset(tmp_path: Path) -> None:
    now = datetime.now(timezone.utc)
    tables = create_share_tables(tmp_path, now, [partition(0, at=now, partition=1)])
    then, later = (
        [partition(start, count, at=now, group_id=group) for group, start, count in starts]
        for starts in (
            [(GROUP, 0, 0), ("still", 50, 0), ("new", -1, None)],
            [(GROUP, 60, 0), ("still", 50, 9), ("new", 50, 0)],
        )
    )
    write_share_rows(tables, now, then)
    for table in TABLES:
        backdate(tables, table, now - timedelta(minutes=6))
    write_share_rows(tables, now, later)
    rates = {row["group_id"]: row["commit_rate_per_s"] for row in rows_of(tables, at=now)}
    assert rates == {GROUP: 0.2, "still": 0.0, "new": None}


@pytest.mark.parametrize(("end", "known_until"), [(5, NOW), (6, at(50))])
def test_the_tables_may_be_behind_the_log_of_share_groups(
    tmp_path: Path, end: int, known_until: datetime
) -> None:
    """Records 5 and on were written evenly between the last two samples."""
    tables = create_share_tables(tmp_path, NOW, [partition(90)])
    replace_samples(tables, SHARE_STATE_TOPIC, (100, 5), (50, 5), (0, end))
    (row,) = rows_of(tables)
    assert row["known_until"] == known_until


# --- status


Ends = Sequence[tuple[float, int | None]]


def replace_samples(
    tables: str, topic: str, *ends: tuple[float, int | None], log_start_offset: int = 0
) -> None:
    """Replace the samples of one topic: how many seconds ago, and the log end then."""
    rows = TableReader(tables).read("log_offsets").to_pylist()
    start = {"log_start_offset": log_start_offset}
    new = [sample(at(ago), end, topic, **({} if end is None else start)) for ago, end in ends]
    write_rows(tables, "log_offsets", [row for row in rows if row["topic"] != topic] + new)


BEHIND_FOR_LONG = ((420, 0), (360, 100), (0, 100))
"""Records were written six to seven minutes ago."""


def test_a_share_group_that_acknowledges_nothing_any_more_has_stopped(tmp_path: Path) -> None:
    tables = create_share_tables(tmp_path, NOW, [partition(50, at=at(370))])
    replace_samples(tables, TOPIC, *BEHIND_FOR_LONG)
    stopped = ("STOP", "no commit for 6.2 min; 50 behind, oldest 6.5 min")
    assert status_of(tables) == stopped
    # Its records go on to be acknowledged: `test_status_of_incidents` has a group that stalls.
    write_share_rows(tables, NOW, [partition(50, at=at(4))])
    assert status_of(tables)[0] == "OK"


def test_evidence_about_an_earlier_group_of_the_name_does_not_count(tmp_path: Path) -> None:
    tables = create_share_tables(tmp_path, NOW, [partition(90)])
    row = OF_OTHERS | {"group_id": GROUP}
    rewind = {"event": "offset_rewind", "offset_before": 95, "offset_after": 5, "record_offset": 2}
    write_share_rows(
        tables,
        NOW,
        [partition(90)],
        group_offsets=[row | {"committed_offset": 3, "commit_timestamp": at(8 * 86_400)}],
        group_events=[row | rewind | {"record_timestamp": at(30)}],
    )
    assert status_of(tables) == ("OK", "10 behind, oldest 10 s")


RECORD = {"group_id": GROUP, "record_type": 14, "record_timestamp": at(100)}
"""Members are silent since then."""


def test_nothing_acknowledged_yet(tmp_path: Path) -> None:
    """Kafka writes no start offset until a record is acknowledged; members are silent till then."""
    no_start = [partition(-1, None)]
    tables = create_share_tables(tmp_path, NOW, no_start)
    assert status_of(tables) == ("OK", "no record was acknowledged yet")
    write_share_rows(tables, NOW, no_start, coordinator_records=[RECORD])
    assert status_of(tables) == (
        "WARN",
        "no committed offset for 100 s, although a member has the partition: a start with "
        "share.auto.offset.reset=latest skips its records; 100 behind, oldest 100 s",
    )
    write_share_rows(tables, NOW, no_start, members=0)
    assert status_of(tables) == ("OK", "no record was acknowledged yet")


def test_members_are_not_silent_if_share_groups_are_not_followed(tmp_path: Path) -> None:
    tables = create_share_tables(tmp_path, NOW, [])
    write_share_rows(tables, NOW, [], coordinator_records=[RECORD])
    status, reason = status_of(tables)
    # The share partition has no record, so all records of its log are unread.
    assert status == "WARN"
    assert reason.startswith("no committed offset for 100 s, although a member has the partition")
    write_share_rows(tables, NOW, [], coordinator_records=[RECORD], topic_progress=[])
    assert status_of(tables) == (
        "UNKNOWN",
        f"1 member; no progress of the share group is known from {SHARE_STATE_TOPIC}",
    )


GONE: Ends = ((0, None),)
NO_TOPIC = "the topic does not exist"


@pytest.mark.parametrize(
    ("row", "topic", "ends", "verdict"),
    [
        # The log of share groups is not sampled.
        (partition(90), SHARE_STATE_TOPIC, (), f"UNKNOWN .* the log end of {SHARE_STATE_TOPIC}"),
        (partition(60), TOPIC, GONE, f"TOPIC_GONE {NO_TOPIC}; start offset 60 remains"),
        (partition(-1), TOPIC, GONE, f"TOPIC_GONE {NO_TOPIC}; the share partition remains"),
        # At least so many: the delivered records may all be before the log start.
        (
            *(partition(10, 5), TOPIC, ((100, 0), (0, 100))),
            "DATA_LOSS 15 records deleted before being read: start offset 10, log start 30",
        ),
    ],
)
def test_the_status_of_a_log_that_is_deleted_or_unknown(
    tmp_path: Path, row: Row, topic: str, ends: Ends, verdict: str
) -> None:
    tables = create_share_tables(tmp_path, NOW, [row])
    replace_samples(tables, topic, *ends, log_start_offset=30)
    if ends == GONE:
        assert rows_of(tables)[0]["time_lag_unknown"] == TOPIC_GONE
    assert re.match(verdict, " ".join(status_of(tables)))


def test_a_share_group_is_explained(tmp_path: Path) -> None:
    partitions = [partition(50, at=at(370)), partition(-1, partition=1)]
    tables = create_share_tables(tmp_path, NOW, partitions)
    replace_samples(tables, TOPIC, *BEHIND_FOR_LONG)
    explanation = explained(TableReader(tables), GROUP, at=NOW)
    assert explanation is not None
    assert (explanation.status, explanation.lag) == ("STOP", 50)
    assert explanation.headline.startswith("STOP: 50 records behind")


# --- samples


def test_the_topics_of_share_groups_are_sampled(tmp_path: Path) -> None:
    """Without a member, too."""
    unnamed = partition(3, topic=None, topic_id="X", partition=2)
    partitions = [partition(60), partition(-1, None, partition=1), unnamed]
    tables, read = create_share_tables(tmp_path, NOW, partitions, members=0), ReadPartitions()
    logs = ((TOPIC, 0), (TOPIC, 1), (SHARE_STATE_TOPIC, 0), ("__consumer_offsets", 0))
    wanted = {TopicPartition(*log) for log in logs}
    for _ in range(2):
        assert read.of(TableReader(tables)) == wanted
    write_share_rows(str(tmp_path), NOW, [partition(60, partition=7)])
    assert TopicPartition(TOPIC, 7) in read.of(TableReader(tables))
