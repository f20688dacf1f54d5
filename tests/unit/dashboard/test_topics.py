"""The page of all topics, and the matrix of a topic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest
from starlette.testclient import TestClient

from tests.support.browser.html import page_client, page_of, part_of, rows_of
from tests.support.tables.held_moment import held_at
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
def topics_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("topics") / "tables"
    now = datetime.now(timezone.utc)
    tables = create_topic_tables(folder, now)
    with held_at(tables, now):
        yield page_client(prod=tables)


def rows_by_heading(page: str, table: str) -> dict[str, list[str]]:
    return {heading: cells for heading, *cells in rows_of(page, table)}


def test_every_topic_has_its_readers_and_the_slowest_of_them(
    topics_client: TestClient, client: TestClient
) -> None:
    page = page_of(topics_client, "topics")
    # Without a sample of an unread topic the page says how to get one.
    advice = "--lag-topics all"
    assert (advice in page, advice in page_of(client, "topics")) == (False, True)
    rows = rows_by_heading(page, "topics")
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
        ("search=RE&sort=topic", [SILENT, PARTLY]),
        ("status=OK&sort=-lag", [READ, PARTLY]),
        ("status=STOP", ["No topic matches."]),
        ("sort=-partitions_unread", [PARTLY, UNREAD, READ, SILENT]),
    ],
)
def test_topics_are_filtered_and_sorted(
    topics_client: TestClient, wanted: str, topics: list[str]
) -> None:
    assert list(rows_by_heading(page_of(topics_client, f"topics?{wanted}"), "topics")) == topics


def test_a_chosen_status_stays_in_the_form_if_no_topic_has_it(topics_client: TestClient) -> None:
    page = page_of(topics_client, "topics?status=STOP&search=re")
    assert '<option value="STOP" selected>STOP (0)</option>' in page


def test_a_matrix_has_the_lag_of_each_group_in_each_partition(topics_client: TestClient) -> None:
    shown = page_of(topics_client, f"topic?topic={READ}")
    rows = rows_by_heading(shown, "matrix")
    lags = {group: [text.split()[-1:] for text in texts[2:]] for group, texts in rows.items()}
    assert lags[QUICK] == [["0"], ["0"], []]
    assert all("600" in text for text in rows[SLOW][2:])
    behind = r"600 behind, oldest (at least )?[\d.]+ (s|min); committed 400; "
    assert re.search(f"{behind}owner billing-consumer-1", shown)
    assert "0 behind; committed 1,000; no owner" in shown
    assert shown.count("<rect ") == 3


def test_what_nobody_reads_is_marked(topics_client: TestClient) -> None:
    shown = page_of(topics_client, f"topic?topic={PARTLY}")
    assert "Nobody reads 2 partitions of 3." in shown
    assert shown.count(">∅<") == 2
    # Partition 1 was never sampled.
    log_ends = part_of(shown, ">Log end<", "</tr>")
    assert re.findall(r">([\d,]+|-)<", log_ends) == ["1,000", "-", "1,000"]

    unread = page_of(topics_client, f"topic?topic={UNREAD}")
    assert "No group reads this topic." in unread
    assert '<table id="matrix">' not in unread
    # A member that has committed nothing is named.
    sentence = "Groups with members on this topic but no commit: <a [^>]*>([^<]*)</a>"
    assert re.findall(sentence, page_of(topics_client, f"topic?topic={SILENT}")) == [MEMBER]
