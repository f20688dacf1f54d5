"""The tabs of a group's page, over tables that were applied from records."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from html import unescape
from pathlib import Path
from urllib.parse import unquote_plus, urlencode

import pytest
from flask.testing import FlaskClient

from streaming.dashboard.app import create_app
from streaming.tables.reader import TableReader
from streaming.views.query import query
from streaming.views.snapshot import Snapshot
from tests.support.tables.dashboard_tables import HOSTILE, create_dashboard_tables
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
from tests.support.tables.tables_folder import apply_micro_batch, create_tables


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> FlaskClient:
    tables = create_tabbed_tables(tmp_path_factory.mktemp("tabs") / "tables")
    app = create_app({"prod": tables})
    app.config["tables"] = tables
    return app.test_client()


def page(client: FlaskClient, group: str, path: str = "group", /, **arguments: str) -> str:
    """A page of a group, without the white space of the template."""
    answer = client.get(f"/c/prod/{path}?{urlencode({'group': group, **arguments})}")
    assert answer.status_code == 200, answer.text
    return " ".join(unescape(answer.text).split())


def tabs(client: FlaskClient, group: str, **arguments: str) -> list[str]:
    """The labels of the tabs; the chosen one begins with a star."""
    (nav,) = re.findall('<nav id="tables".*?</nav>', page(client, group, "group", **arguments))
    return [
        ("*" if "aria-current" in attributes else "") + re.sub("<[^>]*>", "", label)
        for attributes, label in re.findall("<a ([^>]*)>(.*?)</a>", nav)
    ]


def rows(html: str, region: str) -> list[list[str]]:
    """The text of the cells of a table, row by row."""
    (table,) = re.findall(f'aria-label="{region}">.*?</table>', html)
    return [
        [
            " ".join(re.sub("<[^>]*>", " ", cell).split())
            for cell in re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row)
        ]
        for row in re.findall("<tr[^>]*>(.*?)</tr>", table.partition("<tbody>")[2])
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
def test_each_type_of_group_has_its_tabs(
    client: FlaskClient, group: str, labels: list[str]
) -> None:
    assert tabs(client, group) == labels
    assert tabs(client, group, tab="nonsense") == labels


def test_only_the_chosen_table_is_sent(client: FlaskClient) -> None:
    for tab in ("partitions", "members", "events"):
        html = page(client, BILLING, "group", tab=tab, span="15m", sort="lag", fragment="x")
        sections = re.findall('<section[^>]* aria-labelledby="(.*?)"', html)
        assert sections == ["why", "over-time", "what-happened", tab]
        # A change of the tab keeps the period, and drops what belongs to the other table.
        assert f"/c/prod/group?group={BILLING}&span=15m&tab=members#tables" in html
    sorted_page = page(client, BILLING, "group", tab="partitions", sort="-lag", topic="invoices")
    assert f'"/c/prod/group?group={BILLING}&tab=members#tables"' in sorted_page
    assert f"group={BILLING}&tab=partitions&sort=lag&topic=invoices#tables" in sorted_page


def test_the_lag_of_each_topic_and_member(client: FlaskClient) -> None:
    html = page(client, BILLING)
    topics, members = rows(html, "By topic"), rows(html, "By member")
    assert [row[0] for row in topics] == ["invoices STOP", "refunds OK"]
    assert topics[0][1:4] == ["4", "930", "900"]
    assert [row[5] for row in topics] == ["100 %", "0 %"]
    assert [(*row[:4], row[5]) for row in members] == [
        ("biller-0001 STOP", "3", "910", "900", "98 %"),
        ("biller-0000 STOP", "3", "20", "10", "2 %"),
    ]


def test_partitions_of_a_topic_and_of_a_member(client: FlaskClient) -> None:
    def found(**arguments: str) -> list[str]:
        html = page(client, BILLING, "group", sort="topic", **arguments)
        return [f"{row[0]}:{row[1]}" for row in rows(html, "Partitions")]

    assert len(found()) == 6
    assert found(topic="refunds") == ["refunds:0", "refunds:1"]
    assert found(member=CONSUMERS[1]) == ["invoices:2", "invoices:3", "refunds:1"]
    assert found(member=CONSUMERS[1], topic="refunds") == ["refunds:1"]
    assert found(member=CONSUMERS[1], search="inv") == ["invoices:2", "invoices:3"]
    html = page(client, BILLING, "group", member=CONSUMERS[1])
    assert "member biller-0001" in html
    # The search keeps the filter.
    assert f'<input type="hidden" name="member" value="{CONSUMERS[1]}">' in html
    assert "No partition matches." in page(client, BILLING, "group", topic="nothing")


def test_members_have_the_lag_of_their_partitions(client: FlaskClient) -> None:
    html = page(client, BILLING, "group", tab="members", sort="-lag")
    found = rows(html, "Members")
    assert [row[0] for row in found] == ["biller-0001", "biller-0000", "biller-0002"]
    assert found[0][1:5] == ["/10.0.0.5", "3", "910", "900"]
    assert found[0][6] == "invoices 2-3; refunds 1"
    assert re.fullmatch(r"(10|9\.\d+) min ago", found[0][7]), found[0]
    assert found[2][2:5] == ["0", "-", "-"]
    assert f"tab=partitions&member={CONSUMERS[1]}#tables" in html


def test_tasks_of_a_streams_group(client: FlaskClient) -> None:
    html = page(client, PIPELINE, "group", tab="tasks")
    (subtopology,) = rows(html, "Topology")
    assert subtopology == [
        *("0", "clicks ^page-.* (pattern)", "by-page 6 partitions", "by-user"),
        "counts-changelog",
    ]
    assert "epoch 5" in html
    first, second = rows(html, "Tasks by member")
    assert first[1:] == [
        *("process-of-worker-1", "/10.0.0.7", "0_0-1, 3 (3)", "0_2 (1)", "0_4 (1)"),
        *("reached", "STABLE epoch 5"),
    ]
    assert second[3:7] == ["", "", "", "active 0_0-1, 3, standby 0_2, warmup 0_4"]
    assert "active 0_0" in page(client, PIPELINE, "group", tab="members")


def test_workers_and_connectors_of_kafka_connect(client: FlaskClient) -> None:
    html = page(client, WORKERS)
    (connector,) = rows(html, "Connectors")
    assert connector == ["sink", "biller-w1", "1 on biller-w1", SINK]
    (worker,) = rows(html, "Workers")
    assert worker[:7] == [
        *("biller-w1 leader", "http://w1:8083/", "1", "1", "sink: connector, task 1"),
        *("old: task 3 lost tasks are reassigned after 5 min", "7"),
    ]
    assert "<dt>Connector</dt><dd>sink</dd>" in page(client, SINK)
    assert "<dt>Connector</dt>" not in html


def test_transactions_that_are_open_and_that_ended(client: FlaskClient) -> None:
    html = page(client, LEDGER, "group", tab="transactions")
    (pending, _) = rows(html, "Pending offsets")
    assert pending[0].endswith("producer 9, epoch 2")
    assert "accounts :0 at 30, accounts :1 at 30" in pending[-1]
    assert "data-part" in html
    ended = page(client, LEDGER, "group/transactions")
    assert "1 committed, 1 aborted" in ended
    aborted, committed = rows(ended, "Ended transactions")
    assert aborted[2:4] == ["2 s", "aborted"]
    assert committed[3] == "committed"
    assert committed[5:8] == ["9", "2", "2"]
    assert "No transaction with offsets" in page(client, BILLING, "group/transactions")


def test_raw_records_newest_first(client: FlaskClient) -> None:
    html = page(client, BILLING, "group/records")
    found = rows(html, "Raw records")
    assert [row[2] for row in found] == [*["OffsetCommit"] * 6, "GroupMetadata"]
    assert found[0][3] == '{"group": "billing", "topic": "refunds", "partition": 1}'
    assert '"offset": 50' in found[0][4]
    assert found[0][5] == "committed"
    assert '"protocolType": "consumer"' in found[-1][4]
    # A deleted group has its last records, too.
    gone = rows(page(client, GONE, "group/records"), "Raw records")
    assert [row[4] for row in gone[:2]] == ["tombstone", "tombstone"]
    nothing = page(client, BILLING, "group/records", since="3h", until="2h")
    assert "no record of the group in this period" in nothing


def test_a_record_is_shown_whole(client: FlaskClient) -> None:
    html = page(client, BILLING, "group/records")
    links = re.findall('<a href="/c/prod/(group/record[?][^"]*)" title="The whole', html)
    metadata = " ".join(unescape(client.get(f"/c/prod/{links[-1]}").text).split())
    assert '"generation": 3' in metadata
    assert '"assignedPartitions": [ { "topic": "invoices"' in metadata
    assert "<h2>Bytes of the value</h2>" in metadata
    assert "00030008 636f6e73 756d6572" in metadata
    commit = unescape(client.get(f"/c/prod/{links[0]}").text)
    assert '"metadata": "m"' in commit
    assert "not their bytes" in commit
    assert "Bytes of the" not in commit


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ({"log_partition": "0", "record_offset": "99999"}, 404, "has no such record"),
        ({"log_partition": "0", "record_offset": "0", "day": "2001-01-01"}, 404, "no such record"),
        ({"log_partition": "0", "record_offset": "x"}, 400, "record_offset is not a number: 'x'"),
        ({"log_partition": "0"}, 400, "record_offset is not a number"),
        ({"log_partition": "0", "record_offset": "0", "day": "today"}, 400, "not a day such as"),
    ],
)
def test_a_record_that_there_is_not(
    client: FlaskClient, arguments: dict[str, str], status: int, message: str
) -> None:
    answer = client.get(f"/c/prod/group/record?{urlencode({'group': BILLING, **arguments})}")
    assert answer.status_code == status
    assert message in unescape(answer.text)


def test_events_are_of_the_period_of_the_address(client: FlaskClient) -> None:
    every = rows(page(client, BILLING, "group", tab="events"), "Events")
    assert every != [["No events."]]
    within = page(client, BILLING, "group", tab="events", span="15m")
    assert rows(within, "Events") == every
    assert f'href="/c/prod/group?group={BILLING}&tab=events#tables">All events' in within
    before = page(client, BILLING, "group", tab="events", since="3h", until="2h")
    assert rows(before, "Events") == [["No events."]]


@pytest.mark.parametrize(
    ("group", "path", "tab", "counts"),
    [
        (BILLING, "group", "partitions", [6]),
        (BILLING, "group", "members", [3]),
        (PIPELINE, "group", "tasks", [2]),
        (WORKERS, "group", "workers", [1]),
        (LEDGER, "group", "transactions", [2]),
        (LEDGER, "group/transactions", "", [4]),
        (BILLING, "group/records", "", [6, 1]),
    ],
)
def test_each_table_has_its_query(
    client: FlaskClient, group: str, path: str, tab: str, counts: list[int]
) -> None:
    html = page(client, group, path, tab=tab)
    queries = re.findall('href="/c/prod/sql[?]query=([^"&]*)" aria-label="SQL of', html)
    snapshot = Snapshot(TableReader(client.application.config["tables"]))
    assert [query(unquote_plus(one), snapshot).num_rows for one in queries] == counts


MOST_BYTES = 300_000


def test_no_tab_of_a_large_group_is_large(tmp_path: Path) -> None:
    """500 members with long ids and 5,000 partitions of topics with long names."""
    now = datetime.now(timezone.utc)
    group = f"{HOSTILE}{'g' * 200}"
    topics = [f"{HOSTILE}{number:03}{'t' * 200}" for number in range(100)]
    members = [f"{HOSTILE}{'m' * 200}{number:03}" for number in range(500)]
    partitions = [(topic, number) for number in range(50) for topic in topics]
    assigned = [
        [{"topic": topic, "topic_id": None, "partition": number} for topic, number in found]
        for found in (partitions[first::500] for first in range(500))
    ]
    tables = create_tables(tmp_path / "large")
    apply_micro_batch(
        tables,
        progress=[{"updated_at": now}],
        groups=[{"group_id": group, "state": "Stable", "member_count": 500, "generation": 1}],
        group_members=[
            {
                **{"group_id": group, "member_id": member, "client_id": HOSTILE},
                **{"subscribed_topics": topics, "assignment": own},
            }
            for member, own in zip(members, assigned, strict=True)
        ],
        group_offsets=[
            {
                **{"group_id": group, "topic": topic, "partition": number},
                **{"committed_offset": 1, "commit_timestamp": now, "metadata": HOSTILE},
            }
            for topic, number in partitions
        ],
        offset_commits=[
            {
                **{"group_id": group, "topic": topic, "partition": number, "is_tombstone": False},
                **{"record_offset": place, "record_timestamp": now, "day": now.date()},
                **{"committed_offset": 1, "commit_timestamp": now, "metadata": HOSTILE * 50},
                **{"outcome": "committed", "outcome_record_offset": place},
            }
            for place, (topic, number) in enumerate(partitions)
        ],
    )
    client = create_app({"prod": tables}).test_client()
    for path, tab in (
        *(("group", tab) for tab in ("partitions", "members", "events", "transactions")),
        *(("group/records", ""), ("group/transactions", "")),
    ):
        answer = client.get(f"/c/prod/{path}?{urlencode({'group': group, 'tab': tab})}")
        assert answer.status_code == 200
        assert len(answer.data) < MOST_BYTES, (path, tab, len(answer.data))


def test_the_facts_have_the_trend_of_the_lag(tmp_path: Path) -> None:
    tables = create_dashboard_tables(tmp_path / "tables").folder
    html = page(create_app({"prod": tables}).test_client(), "payments")
    assert re.search(r'<dt>Trend</dt><dd><span class="(trend \w+|none)"', html)
