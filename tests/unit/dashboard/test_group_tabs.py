"""The tabs of a group's page, over tables that were applied from records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import unquote_plus

import pytest
from starlette.testclient import TestClient

from coordinator_state.insight.lag import NO_START_OFFSET
from streaming.tables.reader import TableReader
from streaming.views.query import query
from streaming.views.snapshot import Snapshot
from tests.support.browser.html import page_client, page_of, part_of, rows_of, text_of
from tests.support.tables.held_moment import held_at
from tests.support.tables.share_tables import GROUP, TOPIC, create_share_tables, share_partition
from tests.support.tables.tabbed_tables import (
    BILLING,
    CONSUMERS,
    GONE,
    LEDGER,
    PIPELINE,
    SINK,
    WORKERS,
    create_tabbed_tables,
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    tables = create_tabbed_tables(tmp_path_factory.mktemp("tabs") / "tables")
    with held_at(tables, datetime.now(timezone.utc)):
        yield tables


@pytest.fixture(scope="module")
def client(tables: str) -> TestClient:
    return page_client(prod=tables)


def page(client: TestClient, group: str, path: str = "group", /, **arguments: str) -> str:
    """A page of a group."""
    return page_of(client, path, group=group, **arguments)


def tabs(client: TestClient, group: str, **arguments: str) -> list[str]:
    """The labels of the tabs; the chosen one begins with a star."""
    shown = part_of(page(client, group, "group", **arguments), '<nav id="tables"', "</nav>")
    return [
        ("*" if "aria-current" in attributes else "") + text_of(label)
        for attributes, label in re.findall("<a ([^>]*)>(.*?)</a>", shown)
    ]


@pytest.mark.parametrize(
    ("group", "labels"),
    [
        (BILLING, ["*Partitions 6", "Members 3", "Events", "Transactions", "Raw records"]),
        (LEDGER, ["*Partitions 2", "Members 0", "Events", "Transactions 1", "Raw records"]),
        (
            PIPELINE,
            ["*Partitions 0", "Members 2", "Tasks", "Events", "Transactions", "Raw records"],
        ),
        (WORKERS, ["*Workers 1", "Events", "Transactions", "Raw records"]),
        (GONE, ["*Events", "Raw records"]),
    ],
)
def test_each_type_of_group_has_its_tabs(client: TestClient, group: str, labels: list[str]) -> None:
    assert tabs(client, group) == labels
    assert tabs(client, group, tab="nonsense") == labels


def test_only_the_chosen_table_is_sent(client: TestClient) -> None:
    for tab in ("partitions", "members", "events"):
        html = page(client, BILLING, "group", tab=tab, span="15m", sort="lag", fragment="x")
        sections = re.findall('<section[^>]* aria-labelledby="(.*?)"', html)
        assert sections == ["why", "over-time", "what-happened", tab]
        # A change of the tab keeps the period, and drops what belongs to the other table.
        assert f"/c/prod/group?group={BILLING}&span=15m&tab=members#tables" in html
    sorted_page = page(client, BILLING, "group", tab="partitions", sort="-lag", topic="invoices")
    assert f'"/c/prod/group?group={BILLING}&tab=members#tables"' in sorted_page
    assert f"group={BILLING}&tab=partitions&sort=lag&topic=invoices#tables" in sorted_page


def test_the_lag_of_each_topic_and_member(client: TestClient) -> None:
    """The sums are in `property/test_lists.py`."""
    html = page(client, BILLING)
    assert re.search(r'<dt>Trend</dt><dd><span class="(trend \w+|none)"', html)
    topics, members = rows_of(html, "By topic"), rows_of(html, "By member")
    assert topics[0][:4] == ["invoices UNKNOWN", "4", "930", "900"]
    assert members[0][:4] == ["biller-0001 UNKNOWN", "3", "910", "900"]
    assert [row[5] for row in members] == ["98 %", "2 %"]
    html = page(client, BILLING, "group", tab="members", sort="-lag")
    first, _, last = rows_of(html, "Members")
    assert first[:5] == ["biller-0001", "/10.0.0.10", "3", "910", "900"]
    assert first[6] == "invoices 2-3; refunds 1"
    assert last[2:5] == ["0", "-", "-"]
    assert f"tab=partitions&member={CONSUMERS[1]}#tables" in html


def test_partitions_of_a_topic_and_of_a_member(client: TestClient) -> None:
    member = CONSUMERS[1]
    for filters, partitions in (
        ({"topic": "refunds"}, ["refunds:0", "refunds:1"]),
        ({"member": member, "topic": "refunds"}, ["refunds:1"]),
        ({"member": member, "search": "inv"}, ["invoices:2", "invoices:3"]),
        ({"topic": "nothing"}, []),
    ):
        html = page(client, BILLING, "group", sort="topic", **filters)
        rows = rows_of(html, "Partitions") if partitions else []
        assert [f"{row[0]}:{row[1]}" for row in rows] == partitions
        assert ("No partition matches." in html) == (not partitions)


def test_tasks_of_a_streams_group(client: TestClient) -> None:
    html = page(client, PIPELINE, "group", tab="tasks")
    (subtopology,) = rows_of(html, "Topology")
    topics = ["clicks ^page-.* (pattern)", "by-page 6 partitions", "by-user", "counts-changelog"]
    assert subtopology == ["0", *topics]
    assert "epoch 5" in html
    first, second = rows_of(html, "Tasks by member")
    tasks = ["0_0-1, 3 (3)", "0_2 (1)", "0_4 (1)"]
    assert first[1:6] == ["process-of-worker-1", "/10.0.0.7", *tasks]
    assert first[6:] == ["reached", "STABLE epoch 5"]
    assert second[3:7] == ["", "", "", "active 0_0-1, 3, standby 0_2, warmup 0_4"]
    assert "active 0_0" in page(client, PIPELINE, "group", tab="members")


def test_workers_and_connectors_of_kafka_connect(client: TestClient) -> None:
    html = page(client, WORKERS)
    assert rows_of(html, "Connectors") == [["sink", "biller-w1", "1 on biller-w1", SINK]]
    (worker,) = rows_of(html, "Workers")
    assert worker[:4] == ["biller-w1 leader", "http://w1:8083/", "1", "1"]
    assert worker[4] == "sink: connector, task 1"
    assert worker[5] == "old: task 3 lost tasks are reassigned after 5 min"
    assert "<dt>Connector</dt><dd>sink</dd>" in page(client, SINK)
    assert "<dt>Connector</dt>" not in html


def test_transactions_that_are_open_and_that_ended(client: TestClient) -> None:
    html = page(client, LEDGER, "group", tab="transactions")
    pending = rows_of(html, "Pending offsets")[0]
    assert pending[0].endswith("producer 9, epoch 2")
    assert "accounts :0 at 30, accounts :1 at 30" in pending[-1]
    assert "data-part" in html
    ended = page(client, LEDGER, "group/transactions")
    assert "1 committed, 1 aborted" in ended
    aborted, committed = rows_of(ended, "Ended transactions")
    assert aborted[2:4] == ["2 s", "aborted"]
    assert (committed[3], committed[5:8]) == ("committed", ["9", "2", "2"])
    assert "No transaction with offsets" in page(client, BILLING, "group/transactions")


def test_raw_records_newest_first(client: TestClient) -> None:
    records = rows_of(page(client, BILLING, "group/records"), "Raw records")
    assert [row[2] for row in records] == [*["OffsetCommit"] * 6, "GroupMetadata"]
    assert records[0][3] == '{"group": "billing", "topic": "refunds", "partition": 1}'
    assert '"offset": 50' in records[0][4]
    assert records[0][5] == "committed"
    # A deleted group has its last records, too.
    gone = rows_of(page(client, GONE, "group/records"), "Raw records")
    assert [row[4] for row in gone[:2]] == ["tombstone", "tombstone"]
    nothing = page(client, BILLING, "group/records", since="3h", until="2h")
    assert "no record of the group in this period" in nothing


def test_a_record_is_shown_whole(client: TestClient) -> None:
    html = page(client, BILLING, "group/records")
    links = re.findall('<a href="/c/prod/(group/record[?][^"]*)" title="The whole', html)
    metadata = page_of(client, links[-1])
    assert '"generation": 3' in metadata
    assert '"assignedPartitions": [ { "topic": "invoices"' in metadata
    assert "<h2>Bytes of the value</h2>" in metadata
    assert "00030008 636f6e73 756d6572" in metadata
    commit = page_of(client, links[0])
    assert '"metadata": "m"' in commit
    assert "not their bytes" in commit
    assert "Bytes of the" not in commit


def test_the_page_of_a_share_group(tmp_path: Path) -> None:
    now = datetime.now(timezone.utc)
    batches = [
        {"first_offset": first, "last_offset": last, "delivery_state": state, "delivery_count": n}
        for first, last, state, n in (
            *((70, 79, 4, 5), (60, 62, 0, 2), (63, 69, 2, 1)),
            *((80, 83, 3, 5), (84, 85, 9, 1)),
        )
    ]
    partitions = [
        share_partition(60, 17, at=now, state_batches=batches),
        share_partition(-1, None, at=now, partition=1),
        share_partition(0, 0, at=now, partition=2, topic=None, topic_id="unnamed"),
    ]
    client = page_client(prod=create_share_tables(tmp_path / "tables", now, partitions))
    html = page(client, GROUP, "group", sort="-committed_offset")
    assert "Start offsets and lag by partition" in html
    assert '<td class="number">60</td>' in html
    assert f"<small>{NO_START_OFFSET}</small>" in html
    assert "The tables have no lag history of share groups." in html
    assert "data-chart" not in html
    for path in (f"group/why?group={GROUP}", f"group/chart?group={GROUP}", f"topic?topic={TOPIC}"):
        page_of(client, path)

    html = page(client, GROUP, "group", tab="deliveries")
    assert "Transactions" not in part_of(html, 'id="tables"', "<section")
    first, *_, last = rows_of(html, "Deliveries")
    assert first[:9] == [TOPIC, "0", "60", "17", "3", "7", "4", "10", "2"]
    assert first[9] == "5"
    assert first[10].startswith("60 to 62 available (2 times) , 63 to 69 acknowledged (1 time) , ")
    # State 3 is of share.version 2; 9 is of no Kafka yet.
    assert first[10].endswith("80 to 83 archiving (5 times) , 84 to 85 other (9) (1 time)")
    assert last[0] == "unnamed"


def test_events_are_of_the_period_of_the_address(client: TestClient) -> None:
    every = rows_of(page(client, BILLING, "group", tab="events"), "Events")
    assert every != [["No events."]]
    within = page(client, BILLING, "group", tab="events", span="15m")
    assert rows_of(within, "Events") == every
    assert f'href="/c/prod/group?group={BILLING}&tab=events#tables">All events' in within
    before = page(client, BILLING, "group", tab="events", since="3h", until="2h")
    assert rows_of(before, "Events") == [["No events."]]


@pytest.mark.parametrize(
    ("group", "path", "tab", "counts"),
    [
        (PIPELINE, "group", "tasks", [2]),
        (WORKERS, "group", "workers", [1]),
        (LEDGER, "group", "transactions", [2]),
        (LEDGER, "group/transactions", "", [4]),
        (BILLING, "group/records", "", [6, 1]),
    ],
)
def test_each_table_has_its_query(
    client: TestClient, tables: str, group: str, path: str, tab: str, counts: list[int]
) -> None:
    html = page(client, group, path, tab=tab)
    queries = re.findall('href="/c/prod/sql[?]query=([^"&]*)" aria-label="SQL of', html)
    snapshot = Snapshot(TableReader(tables))
    assert [query(unquote_plus(sql), snapshot).num_rows for sql in queries] == counts
