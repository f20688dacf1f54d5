"""Selections of events and of the history of commits."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from streaming.errors import ConfigurationError
from streaming.tables.reader import TableReader
from streaming.views.history import History, Place, history
from tests.support.tables.event_rows import BEGIN, event_row, moved
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

DAY_S = 86_400


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> TableReader:
    folder = create_tables(tmp_path_factory.mktemp("history"))
    rows = [
        *(event_row("group_emptied", at_s) for at_s in range(0, 20, 2)),
        event_row("group_created", None, record_offset=-1),
        moved("offset_rewind", 9, 5, at_s=7, group_id="h"),
        moved("offset_reset", 9, 5, at_s=DAY_S, group_id="h"),
    ]
    apply_micro_batch(folder, group_events=rows, progress=[{"next_offset": 7}])
    return TableReader(folder)


def seconds(found: History) -> list[float | None]:
    return [
        None if at is None else (at - BEGIN).total_seconds()
        for at in found.rows["record_timestamp"].to_pylist()
    ]


def events(reader: TableReader, **selection: Any) -> History:
    return history(reader, "group_events", **selection)


def test_without_a_selection_all_rows_are_in_the_order_of_time(reader: TableReader) -> None:
    found = events(reader)
    assert seconds(found) == [None, 0, 2, 4, 6, 7, 8, 10, 12, 14, 16, 18, DAY_S]
    assert found.more == 0


@pytest.mark.parametrize("limit", [1, 3, 12, 13, 14])
def test_a_limit_takes_the_newest_and_counts_the_others(reader: TableReader, limit: int) -> None:
    found = events(reader, limit=limit)
    assert seconds(found) == seconds(events(reader))[-limit:]
    assert found.more == max(13 - limit, 0)


def test_rows_with_one_timestamp_are_cut_at_the_limit(tmp_path: Path) -> None:
    folder = create_tables(tmp_path)
    rows = [event_row("group_emptied", 0, record_offset=number) for number in range(5)]
    apply_micro_batch(folder, group_events=rows, progress=[{"next_offset": 7}])
    found = events(TableReader(folder), limit=2)
    assert (found.rows["record_offset"].to_pylist(), found.more) == ([3, 4], 3)


def test_a_period_has_both_its_ends(reader: TableReader) -> None:
    since, until = BEGIN + timedelta(seconds=6), BEGIN + timedelta(seconds=8)
    assert seconds(events(reader, since=since, until=until)) == [6, 7, 8]
    assert seconds(events(reader, since=since.isoformat(), until=until.isoformat())) == [6, 7, 8]
    assert seconds(events(reader, since=until + timedelta(hours=1))) == [DAY_S]


def test_rows_are_of_a_group_and_of_named_events(reader: TableReader) -> None:
    assert seconds(events(reader, group="h")) == [7, DAY_S]
    assert seconds(events(reader, events=["offset_rewind"])) == [7]
    found = events(reader, events=["offset_rewind", "offset_reset", "group_created"], limit=1)
    assert (seconds(found), found.more) == ([DAY_S], 2)
    assert seconds(events(reader, group="nobody", limit=5)) == []


def test_a_mistake_is_named(reader: TableReader) -> None:
    with pytest.raises(
        ConfigurationError, match=r"'offset_rewound' is not an event: group_created"
    ):
        events(reader, events=["offset_rewound"])
    with pytest.raises(ConfigurationError, match="17 is not a time such as 5m"):
        events(reader, since="17")


def test_nothing_is_before_the_oldest_row(tmp_path: Path) -> None:
    folder = create_tables(tmp_path)
    apply_micro_batch(folder, progress=[{"next_offset": 7}])
    for moment in (None, BEGIN):
        found = events(TableReader(folder), before=Place(moment, 0, 0), limit=5)
        assert (found.rows.num_rows, found.more) == (0, 0)
