"""The data behind each table: the links below it give the rows that the page shows."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict
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
from streaming.dashboard.app import create_app
from streaming.lag.topic_loads import topic_loads
from streaming.served import lists
from streaming.tables.reader import TableReader
from streaming.views.coordinator_tables import CoordinatorTables
from tests.support.browser.html import client_of, text_of
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


@pytest.mark.parametrize(
    ("page", "arguments"),
    [
        ("", {}),
        ("", {"search": "group-00", "sort": "-group_id"}),
        ("", {"sort": "; DROP", "status": "' OR 1"}),
        ("", {"status": ["REWIND", "HANGING_TRANSACTION", ""]}),
        ("", {"state": "Stable", "type": "classic", "topic": "IMG"}),
        ("", {"state": ["Empty", "it's"], "topic": "nothing"}),
        ("", {"trend": "growing", "sort": "-growth_per_s"}),
        ("", {"sort": "growth_per_s"}),
        ("topic", {"topic": HOSTILE, "sort": "-skew"}),
        ("topic", {"topic": HOSTILE, "search": "PAY", "status": "REWIND"}),
    ],
)
def test_the_groups_of_all_pages_of_a_table(
    client: TestClient, tables: DashboardTables, page: str, arguments: dict[str, Any]
) -> None:
    html, of = shown(client, page, at=tables.after.isoformat(), **arguments)
    in_file, rows = rows_of(client, html, "groups"), of["groups"].rows
    assert len(in_file) == of["groups"].total
    names = ("group_id", "status", "partitions", "lag")
    assert values(in_file[: len(rows)], *names) == values(rows, *names)


PARTITION = "topic partition status committed_offset lag pending_offset"
LOG = "partition log_start_offset last_stable_offset log_end_offset produce_rate_per_s share"
TOPIC = "topic status readers slowest_group_id lag partitions partitions_unread"
PROGRESS = "log_partition state next_offset behind records_read unaccounted"


@pytest.mark.parametrize(
    ("page", "arguments", "label", "variable", "names"),
    [
        ("group", {"group": HOSTILE}, "partitions", "partitions", PARTITION),
        ("group", {"group": REWOUND, "sort": "-lag"}, "partitions", "partitions", PARTITION),
        *(
            ("group", {"group": REWOUND, **filters}, "partitions", "partitions", PARTITION)
            for filters in ({"search": "nobody"}, {"topic": HOSTILE}, {"member": MEMBER})
        ),
        (
            "group",
            {"group": HOSTILE, "tab": "members"},
            "members",
            "members",
            "member_id client_id client_host assignment",
        ),
        ("topic", {"topic": HOSTILE}, "partitions", "columns", LOG),
        ("topics", {}, "topics", "topics", TOPIC),
        ("topics", {"search": "im", "sort": "-lag"}, "topics", "topics", TOPIC),
        ("topics", {"unread": "partitions"}, "topics", "topics", TOPIC),
        ("health", {"sort": "-records_read"}, "log partitions", "progress", PROGRESS),
        ("health", {}, "the quarantine", "quarantined", "log_partition record_offset reason"),
        ("transactions", {}, "blocked groups", "blocked", "group_id"),
    ],
)
def test_the_file_of_a_table_has_its_rows(
    client: TestClient,
    tables: DashboardTables,
    page: str,
    arguments: dict[str, str],
    label: str,
    variable: str,
    names: str,
) -> None:
    html, of = shown(client, page, at=tables.after.isoformat(), **arguments)
    rows = getattr(of[variable], "rows", of[variable])
    assert values(rows_of(client, html, label), *names.split()) == values(rows, *names.split())


@pytest.mark.parametrize(
    ("event", "offsets_after"),
    [("", [100]), ("offset_rewind", [100]), ("rebalance,offset_reset", [])],
)
def test_the_file_of_events_has_those_of_the_filter(
    client: TestClient, event: str, offsets_after: list[int]
) -> None:
    page, _ = shown(client, "group", group=REWOUND, tab="events", event=event)
    assert [row["offset_after"] for row in rows_of(client, page, "events")] == offsets_after


def test_the_file_of_transactions_has_a_row_for_each_offset(client: TestClient) -> None:
    page, of = shown(client, "transactions")
    (row,) = rows_of(client, page, "pending offsets")
    (pending,) = of["snapshot"].transactions
    names: tuple[str, ...]
    names = ("producer_id", "producer_epoch", "group_id", "client_id", "log_partition")
    assert values([row], *names) == values([pending], *names)
    names = ("topic", "partition", "committed_offset")
    assert values([row], *names) == values(pending["offsets"], *names)


def test_two_moments_give_the_changes_between_them(
    client: TestClient, tables: DashboardTables
) -> None:
    since, until = tables.before.isoformat(), tables.after.isoformat()
    for group in ("", REWOUND):
        page, of = shown(client, "changes", since=since, until=until, group=group)
        sides = [rows_at(client, link) for link in links_of(page, "groups")]
        before, after = ({row["group_id"]: row for row in side} for side in sides)
        changed = {name for name in before if before[name]["status"] != after[name]["status"]}
        assert changed == {row["group_id"] for row in of["groups"].rows} == {REWOUND}
        sides = [rows_at(client, link) for link in links_of(page, "committed offsets")]
        names = ("group_id", "topic", "partition")
        was, became = (
            {values([row], *names)[0]: row["committed_offset"] for row in side} for side in sides
        )
        back = {key: was[key] - became[key] for key in was if was[key] != became[key]}
        assert set(back) == {(REWOUND, HOSTILE, 0), (REWOUND, HOSTILE, 1)}
        (moved,) = of["moved"].rows
        assert sum(back.values()) == moved["back"]
        (event,) = rows_of(client, page, "events")
        assert event["record_offset"] == 39


def test_the_file_of_alerts_has_every_alert(tmp_path: Path, tables: DashboardTables) -> None:
    folder = str(shutil.copytree(tables.folder, tmp_path / "tables"))
    now = datetime.now(timezone.utc)
    states = (AlertState.RESOLVED, AlertState.PENDING, AlertState.FIRING)
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
        for number, state in enumerate(states)
    ]
    write_alerts(open_alerts(folder), {alert.key: alert for alert in alerts})
    client = client_of(create_app({"prod": folder}))
    page, of = shown(client, "alerts")
    names = ("rule", "group_id", "topic", "partition", "state", "reason")
    assert values(rows_of(client, page, "alerts"), *names) == values(of["alerts"], *names)
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
    tables = CoordinatorTables(folder)
    (load,) = map(asdict, topic_loads(TableReader(folder)).values())
    (row,) = tables.sql(lists.topic_loads().sql).arrow.to_pylist()
    assert row == {name: load[name] for name in row}
    assert (row["behind"], row["current"]) == (4, 1)


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
