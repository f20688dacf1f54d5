"""Lag over time, from commits and samples."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from coordinator_state.insight.group_facts import LagHistory
from streaming.lag.lag_history import lag_histories
from streaming.tables.reader import TableReader
from tests.support.tables.dashboard_tables import HOSTILE, REWOUND, DashboardTables
from tests.support.tables.sample_rows import sample
from tests.support.tables.status_tables import NOW
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables, write_rows


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def commit(number: int, minutes: float, offset: int | None, partition: int = 0) -> Row:
    return {
        **{"group_id": "g", "topic": "t", "partition": partition, "committed_offset": offset},
        **{
            "record_offset": number,
            "record_timestamp": ago(minutes),
            "is_tombstone": offset is None,
        },
        "commit_timestamp": None if offset is None else ago(minutes),
    }


def lag_history(reader: TableReader, group_id: str, **period: Any) -> LagHistory:
    return lag_histories(reader, [group_id], **period)[group_id]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Partition 0 is 100 behind at first, then well; the offset of partition 1 is deleted."""
    folder = create_tables(tmp_path_factory.mktemp("tables"))
    apply_micro_batch(
        folder,
        progress=[{"updated_at": NOW}],
        groups=[{"group_id": "g"}],
        group_offsets=[
            {"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 1_000}
            | {"commit_timestamp": ago(5)}
        ],
        offset_commits=[
            commit(1, 40, 900),
            commit(2, 5, 1_000),
            commit(3, 40, 0, partition=1),
            commit(4, 20, None, partition=1),
        ],
    )
    write_rows(
        folder,
        "log_offsets",
        [
            sample(ago(minutes), 1_000, partition=partition)
            for minutes in range(40, -1, -1)
            for partition in (0, 1)
        ],
    )
    return folder


def test_a_history_has_what_is_known(tables: str) -> None:
    """A deleted offset has no lag from then on; consumed records count from the first commit."""
    history = lag_history(TableReader(tables), "g", since=ago(60), until=NOW, points=61)
    lag, consumed, rates = (
        dict(zip(history.at, values, strict=True))
        for values in (history.lag, history.consumed, history.commit_rate_per_s)
    )
    moments = (ago(50), ago(30), ago(10), NOW)
    assert [lag[at] for at in moments] == [None, 100 + 1_000, 100, 0]
    assert [consumed[at] for at in moments] == [None, 0, 0, 100]
    assert rates[ago(5)] == pytest.approx(100 / 60)
    assert rates[ago(10)] == history.produce_rate_per_s[-1] == 0
    nobody = lag_history(TableReader(tables), "nobody", since=ago(60), until=NOW)
    assert set(nobody.lag) == set(nobody.commit_rate_per_s) == {None}


def test_nothing_is_known_after_the_last_sample_and_commit(tables: str) -> None:
    history = lag_history(TableReader(tables), "g", since=ago(5), until=ago(-5), points=11)
    # Samples are at most a minute apart.
    assert history.lag == history.consumed == [*7 * [0], *4 * [None]]


def test_a_history_can_begin_with_its_data(tables: str) -> None:
    reader = TableReader(tables)
    history = lag_history(reader, "g", since=ago(60), until=NOW, points=61, begins_with_data=True)
    assert history.at[0] == ago(40)
    assert history.lag[0] == 100 + 1_000
    known = lag_history(reader, "g", since=ago(30), until=NOW, begins_with_data=True)
    assert known.at[0] == ago(30)
    nobody = lag_history(reader, "nobody", since=ago(60), until=NOW, begins_with_data=True)
    assert nobody.at[0] == ago(60)


@pytest.mark.parametrize(
    "options", [{"points": 30}, {"every": timedelta(seconds=5)}, {"begins_with_data": True}]
)
def test_many_groups_at_once_have_the_lag_of_each(
    dashboard_tables: DashboardTables, options: dict[str, Any]
) -> None:
    reader = TableReader(dashboard_tables.folder)
    period = {"since": reader.moment - timedelta(minutes=10), "until": reader.moment, **options}
    groups = [REWOUND, "nobody", HOSTILE, "group-000"]
    history = lag_histories(reader, groups, **period)
    assert history == {group: lag_history(reader, group, **period) for group in groups}
    assert history[REWOUND].lag[-1] == 2 * 900
