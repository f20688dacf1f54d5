"""The data behind each table: the links below it give the rows that the page shows."""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime, timedelta, timezone
from html import unescape
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

import pytest
from jinja2 import Template
from starlette.testclient import TestClient

from streaming.alerts.alert import Alert, AlertKey, AlertState
from streaming.alerts.alerts_table import open_alerts, write_alerts
from streaming.views import lists
from streaming.views.coordinator_tables import CoordinatorTables
from tests.support.browser.html import page_client, page_of, text_of
from tests.support.browser.html import rows_of as cells_of
from tests.support.tables.dashboard_tables import HOSTILE, MEMBER, REWOUND, DashboardTables
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

Row = dict[str, Any]


def shown(client: TestClient, page: str, **arguments: Any) -> tuple[str, Row]:
    """A page, and the variables of its template."""
    contexts: list[Row] = []

    render = Template.render

    def note(template: Template, values: Row) -> str:
        contexts.append(values)
        return render(template, values)

    with patch.object(Template, "render", note):
        answer = client.get(f"/c/prod/{page}?{urlencode(arguments, doseq=True)}")
    assert answer.status_code == 200, answer.text
    return answer.text, contexts[0]


def links_of(page: str, label: str, name: str = "JSON") -> list[str]:
    links = re.findall(rf'href="([^"]*)" aria-label="{name} of {label}', page)
    assert links, label
    return [unescape(link) for link in links]


def rows_of(client: TestClient, page: str, label: str) -> list[Row]:
    """The rows of the JSON file of a table."""
    (link,) = links_of(page, label)
    return rows_at(client, link)


def rows_at(client: TestClient, link: str) -> list[Row]:
    answer = client.get(link)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/x-ndjson; charset=utf-8"
    return [json.loads(line) for line in answer.text.splitlines()]


def values(rows: Any, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


GROUPS = ("groups", "groups", "group_id status partitions lag")
PARTITIONS = "topic partition status committed_offset lag pending_offset"
PARTITIONS_OF_GROUP = ("partitions", "partitions", PARTITIONS)
LOGS = "partition log_start_offset last_stable_offset log_end_offset produce_rate_per_s share"
TOPICS = "topic status readers slowest_group_id lag partitions partitions_unread"
MEMBERS = "member_id client_id client_host assignment"


@pytest.mark.parametrize(
    ("page", "arguments", "table"),
    [
        ("", {"search": "group-00", "sort": "-group_id"}, GROUPS),
        ("", {"state": "Stable", "topic": "IMG", "status": ["OK", "' OR 1"]}, GROUPS),
        ("topic", {"topic": HOSTILE, "search": "PAY", "sort": "-skew"}, GROUPS),
        ("group", {"group": REWOUND, "sort": "-lag"}, PARTITIONS_OF_GROUP),
        ("group", {"group": REWOUND, "topic": HOSTILE, "member": MEMBER}, PARTITIONS_OF_GROUP),
        ("group", {"group": HOSTILE, "tab": "members"}, ("members", "members", MEMBERS)),
        ("topic", {"topic": HOSTILE}, ("partitions", "columns", LOGS)),
        ("topics", {"unread": "partitions"}, ("topics", "topics", TOPICS)),
    ],
)
def test_the_file_of_a_table_has_its_rows(
    client: TestClient,
    tables: DashboardTables,
    page: str,
    arguments: dict[str, Any],
    table: tuple[str, str, str],
) -> None:
    """The page has the first rows of a list, and the file has all of them."""
    html, context = shown(client, page, at=tables.after.isoformat(), **arguments)
    label, variable, names = table
    in_file, on_page = rows_of(client, html, label), context[variable]
    rows = on_page.rows if hasattr(on_page, "rows") else on_page
    assert len(in_file) == getattr(on_page, "total", len(rows))
    assert values(in_file[: len(rows)], *names.split()) == values(rows, *names.split())


@pytest.mark.parametrize(
    ("event", "offsets_after"), [("offset_rewind", [100]), ("rebalance,offset_reset", [])]
)
def test_the_file_of_events_has_those_of_the_filter(
    client: TestClient, event: str, offsets_after: list[int]
) -> None:
    page, _ = shown(client, "group", group=REWOUND, tab="events", event=event)
    assert [row["offset_after"] for row in rows_of(client, page, "events")] == offsets_after


def test_a_transaction_has_its_commands_and_its_file_a_row_for_each_offset(
    client: TestClient,
) -> None:
    page, context = shown(client, "transactions")
    abort = "abort --topic __consumer_offsets --partition 0 --start-offset 0"
    assert f"kafka-transactions.sh --bootstrap-server HOST:PORT {abort}" in page
    (row,) = rows_of(client, page, "pending offsets")
    (pending,) = context["snapshot"].transactions
    names = ("producer_id", "group_id", "client_id", "log_partition")
    assert values([row], *names) == values([pending], *names)
    place = ("topic", "partition", "committed_offset")
    assert values([row], *place) == values(pending["offsets"], *place)


@pytest.mark.parametrize(("group", "is_swapped"), [("", False), (REWOUND, True)])
def test_two_moments_in_any_order_give_the_changes_between_them(
    client: TestClient, tables: DashboardTables, group: str, is_swapped: bool
) -> None:
    moments = [tables.before.isoformat(), tables.after.isoformat()]
    since, until = reversed(moments) if is_swapped else moments
    page, context = shown(client, "changes", since=since, until=until, group=group)

    def changed(label: str, column: str, *key: str) -> dict[tuple[Any, ...], tuple[Any, Any]]:
        """The values of both moments by key, where they differ."""
        before, after = (
            {values([row], *key)[0]: row[column] for row in rows_at(client, link)}
            for link in links_of(page, label)
        )
        return {key: (before[key], after[key]) for key in before if before[key] != after[key]}

    assert changed("groups", "status", "group_id") == {(REWOUND,): ("OK", "REWIND")}
    assert [row["group_id"] for row in context["groups"].rows] == [REWOUND]
    key = ("group_id", "topic", "partition")
    assert changed("committed offsets", "committed_offset", *key) == {
        (REWOUND, HOSTILE, partition): (990, 100) for partition in (0, 1)
    }
    assert values(context["moved"].rows, "back") == [(2 * 890,)]
    assert values(rows_of(client, page, "events"), "record_offset") == [(39,)]


def test_the_file_of_alerts_has_every_alert(tmp_path: Path, tables: DashboardTables) -> None:
    folder = str(shutil.copytree(tables.folder, tmp_path / "tables"))
    now = datetime.now(timezone.utc)
    alerts = [
        Alert(
            key=AlertKey("slow", HOSTILE, HOSTILE, number),
            severity="warning",
            state=state,
            since=now - timedelta(minutes=number),
            reason=HOSTILE,
            group_status="HANGING_TRANSACTION",
            previous_status="STOP",
            status_since=now,
        )
        for number, state in enumerate(AlertState)
    ]
    write_alerts(open_alerts(folder), {alert.key: alert for alert in alerts})
    client = page_client(prod=folder)
    page, context = shown(client, "alerts")
    names = ("rule", "group_id", "topic", "partition", "state", "reason")
    in_file = rows_of(client, page, "alerts")
    assert values(in_file, *names) == values(context["alerts"].rows, *names)
    assert [row["state"] for row in in_file] == ["firing", "pending", "resolved"]
    change = f"(was STOP until {now:%Y-%m-%d %H:%M:%S} UTC )"
    assert text_of(page).count(change) == len(alerts)


def test_other_internal_topics(tmp_path: Path) -> None:
    folder = create_tables(tmp_path / "tables")
    progress = {"log_topic": "__transaction_state", "next_offset": 7, "high_watermark": 9}
    apply_micro_batch(
        folder,
        progress=[{"updated_at": datetime.now(timezone.utc)}],
        topic_progress=[
            {**progress, "log_partition": 0, "state": "current", "records_read": 7},
            {**progress, "log_partition": 1, "state": "loading", "records_read": 5},
        ],
    )
    html = page_of(page_client(prod=folder), "health")
    sums = ["2", "1", "4", "12", "0", "0"]
    assert cells_of(html, "Other internal topics") == [["__transaction_state", *sums]]


def test_a_query_finds_any_name(tmp_path: Path) -> None:
    names = ["it's", "\x00", "a\nb", "\u202e\\", "", "%_*", "🙂", "other"]
    folder = create_tables(tmp_path / "tables")
    groups = [{"group_id": name, "state": "Empty"} for name in names]
    apply_micro_batch(folder, progress=[{"updated_at": datetime.now(timezone.utc)}], groups=groups)
    sql = CoordinatorTables(folder).sql
    for name in names:
        (row,) = sql(lists.groups_at(name).sql).arrow.to_pylist()
        assert row["group_id"] == name
        searched = sql(lists.groups(search=name.upper()).sql).arrow
        assert set(searched["group_id"].to_pylist()) == ({name} if name else set(names)), name
