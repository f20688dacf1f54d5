"""Selections of events and of the history of commits, and summaries of events."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from streaming.errors import ConfigurationError
from streaming.tables.reader import TableReader
from streaming.views.event_summary import event_summary
from streaming.views.history import History, history
from tests.support.tables.event_rows import BEGIN, by_member, event_row, moved
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


def seconds(selected: History) -> list[float | None]:
    return [
        None if at is None else (at - BEGIN).total_seconds()
        for at in selected.rows["record_timestamp"].to_pylist()
    ]


def events(reader: TableReader, **selection: Any) -> History:
    return history(reader, "group_events", **selection)


@pytest.mark.parametrize("limit", [1, 3, 12, 13, 14])
def test_a_limit_takes_the_newest_and_counts_the_others(reader: TableReader, limit: int) -> None:
    every = [None, 0, 2, 4, 6, 7, 8, 10, 12, 14, 16, 18, DAY_S]
    assert (seconds(events(reader)), events(reader).more) == (every, 0)
    newest = events(reader, limit=limit)
    assert (seconds(newest), newest.more) == (every[-limit:], max(13 - limit, 0))


def test_a_period_has_both_its_ends(reader: TableReader) -> None:
    since, until = BEGIN + timedelta(seconds=6), BEGIN + timedelta(seconds=8)
    assert seconds(events(reader, since=since, until=until)) == [6, 7, 8]
    assert seconds(events(reader, since=since.isoformat(), until=until.isoformat())) == [6, 7, 8]
    assert seconds(events(reader, since=until + timedelta(hours=1))) == [DAY_S]


def test_rows_are_of_a_group_and_of_named_events(reader: TableReader) -> None:
    assert seconds(events(reader, group="h")) == [7, DAY_S]
    assert seconds(events(reader, events=["offset_rewind"])) == [7]
    newest = events(reader, events=["offset_rewind", "offset_reset", "group_created"], limit=1)
    assert (seconds(newest), newest.more) == ([DAY_S], 2)
    assert seconds(events(reader, group="nobody", limit=5)) == []


def test_a_mistake_is_named(reader: TableReader) -> None:
    with pytest.raises(ConfigurationError, match="'offset_rewound' is not an event: group_created"):
        events(reader, events=["offset_rewound"])


def test_nothing_is_before_the_oldest_row(tmp_path: Path) -> None:
    folder = create_tables(tmp_path)
    apply_micro_batch(folder, progress=[{"next_offset": 7}])
    for time in (0, (1 << 63) - 1):
        earlier = events(TableReader(folder), before=(time, 0, 0, 0), limit=5)
        assert (earlier.rows.num_rows, earlier.more, earlier.oldest) == (0, 0, ())


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> TableReader:
    """A rewind, and after it a hundred events of lighter kinds."""
    folder = create_tables(tmp_path_factory.mktemp("many"))
    fields = {"topic": "t", "partition": 0, "offset_before": 1}
    rows = [
        moved("offset_rewind", 9, 5, **by_member("c-aaaa51f4", "c")),
        *(
            event_row(event, at_s=at_s, epoch_after=at_s, **fields)
            for number in range(1, 101, 2)
            for at_s, event in ((number, "rebalance"), (number + 1, "offset_deleted"))
        ),
    ]
    member = {"group_id": "g", **by_member("c-bbbb51f4", "c")}
    apply_micro_batch(
        folder, group_events=rows, group_members=[member], progress=[{"next_offset": 7}]
    )
    return TableReader(folder)


def test_each_event_is_in_the_summary(many: TableReader) -> None:
    summary = event_summary(many)
    assert [(folded.events, folded.count) for folded in summary.rows] == [
        (("offset_rewind",), 1),
        (("offset_deleted",), 50),
        (("rebalance",), 50),
    ]
    assert summary.more == 0
    # Labels differ from those of current members.
    assert "by c-a51f4 at" in summary.rows[0].text
    each = event_summary(many, is_folded=False)
    assert [folded.rows[0]["record_offset"] for folded in each.rows] == [
        number * 1000 for number in range(100, -1, -1)
    ]


@pytest.mark.parametrize("is_folded", [True, False])
def test_newer_events_of_other_kinds_do_not_push_a_rewind_out(
    many: TableReader, is_folded: bool
) -> None:
    summary = event_summary(many, most=9, is_folded=is_folded)
    events = [row["event"] for folded in summary.rows for row in folded.rows]
    assert events.count("offset_rewind") == 1
    assert sum(folded.count for folded in summary.rows) + summary.more == 101
    names = event_summary(many, events=["rebalance"], most=9, is_folded=is_folded)
    assert sum(folded.count for folded in names.rows) + names.more == 50
