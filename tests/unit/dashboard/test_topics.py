"""The page of all topics, and the matrix of a topic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from streaming.dashboard.app import create_app
from streaming.dashboard.topic_matrix import MAX_CELLS
from tests.support.browser.html import page_of, part_of, rows_of
from tests.support.tables.held_moment import held_at
from tests.support.tables.sample_rows import offset_row
from tests.support.tables.tables_folder import apply_micro_batch, create_tables
from tests.support.tables.topic_tables import (
    MEMBER,
    PARTLY,
    QUICK,
    READ,
    SILENT,
    SLOW,
    UNREAD,
    create_topic_tables,
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    folder = tmp_path_factory.mktemp("topics") / "tables"
    now = datetime.now(timezone.utc)
    tables = create_topic_tables(folder, now)
    with held_at(tables, now):
        yield create_app({"prod": tables}).test_client()


LEFT_OUT = ("group-00", 129)
"""The group and the partition without a commit."""


def rows_by_heading(page: str, table: str) -> dict[str, list[str]]:
    return {heading: cells for heading, *cells in rows_of(page, table)}


def test_every_topic_has_its_readers_and_the_slowest_of_them(client: FlaskClient) -> None:
    rows = rows_by_heading(page_of(client, "topics"), "topics")
    assert set(rows) == {READ, PARTLY, SILENT, UNREAD}
    _, readers, slowest, lag, *_, partitions, unread = rows[READ]
    assert (readers, slowest, lag, partitions, unread) == ("2", SLOW, "1,800", "3", "0")
    # A partition below the greatest number exists, whether it is sampled or not.
    assert (rows[PARTLY][2], rows[PARTLY][-2:]) == (QUICK, ["3", "2"])
    assert rows[SILENT][:3] == ["nothing committed", "1", MEMBER]
    assert rows[UNREAD][:3] == ["nobody reads it", "0", ""]
    assert rows[UNREAD][-5:] == ["", "15", "-", "2", "2"]


@pytest.mark.parametrize(
    ("wanted", "topics"),
    [
        ("unread=topics", [UNREAD]),
        ("unread=partitions", [PARTLY]),
        ("search=RE", [PARTLY, SILENT]),
        ("status=OK", [READ, PARTLY]),
        ("status=STOP", ["No topic matches."]),
        ("sort=topic", [UNREAD, READ, SILENT, PARTLY]),
        ("sort=-unread", [PARTLY, UNREAD, READ, SILENT]),
        ("sort=-lag", [READ, PARTLY, UNREAD, SILENT]),
    ],
)
def test_topics_are_filtered_and_sorted(
    client: FlaskClient, wanted: str, topics: list[str]
) -> None:
    assert list(rows_by_heading(page_of(client, f"topics?{wanted}"), "topics")) == topics


def test_without_a_sample_of_another_topic_the_page_says_how_to_have_them(
    client: FlaskClient, tmp_path: Path
) -> None:
    tables = create_topic_tables(tmp_path, datetime.now(timezone.utc), with_unread=False)
    only_read = page_of(create_app({"prod": tables}).test_client(), "topics")
    assert "--lag-topics all" in only_read
    assert UNREAD not in only_read
    assert "--lag-topics all" not in page_of(client, "topics")


def test_a_matrix_has_the_lag_of_each_group_in_each_partition(client: FlaskClient) -> None:
    shown = page_of(client, f"topic?topic={READ}")
    rows = rows_by_heading(shown, "matrix")
    lags = {group: [text.split()[-1:] for text in texts[2:]] for group, texts in rows.items()}
    assert lags[QUICK] == [["0"], ["0"], []]
    assert all("600" in text for text in rows[SLOW][2:])
    behind = r"600 behind, oldest (at least )?[\d.]+ (s|min); committed 400; "
    assert re.search(f"{behind}owner billing-consumer-1", shown)
    assert "0 behind; committed 1,000; no owner" in shown
    assert shown.count("<rect ") == 3


def test_what_nobody_reads_is_marked(client: FlaskClient) -> None:
    shown = page_of(client, f"topic?topic={PARTLY}")
    assert "Nobody reads 2 partitions of 3." in shown
    assert shown.count(">∅<") == 2
    # Partition 1 was never sampled.
    log_ends = part_of(shown, ">Log end<", "</tr>")
    assert re.findall(r">([\d,]+|-)<", log_ends) == ["1,000", "-", "1,000"]

    unread = page_of(client, f"topic?topic={UNREAD}")
    assert "No group reads this topic." in unread
    assert '<table id="matrix">' not in unread
    assert "1,000" in unread
    # A member that has committed nothing is named.
    sentence = "Groups with members on this topic but no commit: <a [^>]*>([^<]*)</a>"
    assert re.findall(sentence, page_of(client, f"topic?topic={SILENT}")) == [MEMBER]


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> FlaskClient:
    """A topic of 130 partitions, which 60 groups read; one has committed nothing in the last."""
    tables = create_tables(tmp_path_factory.mktemp("wide"))
    groups = [f"group-{number:02}" for number in range(60)]
    now = datetime.now(timezone.utc)
    places = [{"topic": "t", "topic_id": None, "partition": number} for number in (0, 129)]
    offsets = [offset_row(group, 7, now, "t", number) for group in groups for number in range(130)]
    apply_micro_batch(
        tables,
        progress=[{"updated_at": now}],
        groups=[{"group_id": group, "state": "Stable", "member_count": 1} for group in groups],
        group_members=[{"group_id": groups[0], "member_id": "m", "assignment": places}],
        group_offsets=[row for row in offsets if (row["group_id"], row["partition"]) != LEFT_OUT],
    )
    return create_app({"prod": tables}).test_client()


@pytest.mark.parametrize(
    ("first", "range_"),
    [
        ("64", (64, 127)),
        ("70", (64, 127)),
        ("9999", (128, 129)),
        ("-1", (0, 63)),
        ("x", (0, 63)),
        ("9" * 5_000, (0, 63)),
    ],
)
def test_a_page_has_at_most_64_partitions(
    wide: FlaskClient, first: str, range_: tuple[int, int]
) -> None:
    shown = page_of(wide, f"topic?topic=t&first={first}&sort=group_id")
    headings = part_of(shown, '"matrix">', "</tr>")
    numbers = [int(number) for number in re.findall(r'<th scope="col"[^>]*>(\d+)', headings)]
    assert (numbers[0], numbers[-1]) == range_
    assert f"partitions {range_[0]} to {range_[1]} of 130" in shown
    ranges = part_of(shown, 'aria-label="Ranges of partitions"', "</nav>")
    assert ("Next</a>" in ranges, "Previous</a>" in ranges) == (range_[1] < 129, range_[0] > 0)
    # The groups of the page are fewer, the more partitions it has.
    cells = len(re.findall(r'<td class="\w+" title=', shown))
    assert cells <= MAX_CELLS
    assert len(shown) < 300_000
    assert shown.count('title="assigned, nothing committed"') == (range_[1] == 129)
    owned = "the log was not sampled yet; committed 7; owner"
    assert (owned in shown) == (range_[0] == 0)
