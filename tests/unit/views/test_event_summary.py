"""Summaries of events of the tables."""

from __future__ import annotations

import pytest

from streaming.tables.reader import TableReader
from streaming.views.event_summary import event_summary
from tests.support.tables.event_rows import by_member, event_row, moved
from tests.support.tables.tables_folder import apply_micro_batch, create_tables


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> TableReader:
    """A rewind, and after it a hundred events of lighter kinds."""
    folder = create_tables(tmp_path_factory.mktemp("tables"))
    lighter = ("offset_deleted", "rebalance")
    rows = [
        moved("offset_rewind", 9, 5, **by_member("c-aaaa51f4", "c")),
        *(
            event_row(
                lighter[number % 2],
                at_s=number,
                **{"topic": "t", "partition": 0, "offset_before": 1, "epoch_after": number},
            )
            for number in range(1, 101)
        ),
    ]
    member = {"group_id": "g", **by_member("c-bbbb51f4", "c")}
    apply_micro_batch(
        folder, group_events=rows, group_members=[member], progress=[{"next_offset": 7}]
    )
    return TableReader(folder)


def test_each_event_is_in_the_summary(reader: TableReader) -> None:
    summary = event_summary(reader)
    assert [(folded.events, folded.count) for folded in summary.rows] == [
        (("offset_rewind",), 1),
        (("offset_deleted",), 50),
        (("rebalance",), 50),
    ]
    assert summary.more == 0


def test_labels_differ_from_those_of_current_members(reader: TableReader) -> None:
    assert "by c-a51f4 at" in event_summary(reader).rows[0].text


@pytest.mark.parametrize("is_folded", [True, False])
def test_newer_events_of_other_kinds_do_not_push_a_rewind_out(
    reader: TableReader, is_folded: bool
) -> None:
    summary = event_summary(reader, most=9, is_folded=is_folded)
    events = [row["event"] for folded in summary.rows for row in folded.rows]
    assert events.count("offset_rewind") == 1
    assert sum(folded.count for folded in summary.rows) + summary.more == 101
    names = event_summary(reader, events=["rebalance"], most=9, is_folded=is_folded)
    assert sum(folded.count for folded in names.rows) + names.more == 50


def test_unfolded_events_are_newest_first(reader: TableReader) -> None:
    summary = event_summary(reader, is_folded=False)
    assert [folded.rows[0]["record_offset"] for folded in summary.rows] == [
        number * 1000 for number in range(100, -1, -1)
    ]
