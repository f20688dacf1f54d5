"""The data behind each table: the links below it give the rows that the page shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from flask import Flask, template_rendered
from flask.testing import FlaskClient
from werkzeug.datastructures import MultiDict

from streaming.alerts.alert import Alert, AlertKey, AlertState
from streaming.alerts.alerts_table import open_alerts, write_alerts
from streaming.dashboard import table_queries
from streaming.lag.topic_loads import topic_loads
from streaming.tables.reader import TableReader
from streaming.views.coordinator_tables import CoordinatorTables
from tests.support.tables.dashboard_tables import (
    GROUPS,
    HOSTILE,
    MEMBER,
    REWOUND,
    DashboardTables,
)
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

Row = dict[str, Any]


@contextmanager
def rendered(app: Flask) -> Iterator[list[Row]]:
    """The variables of the templates that are rendered meanwhile."""
    found: list[Row] = []

    def note(_app: Flask, template: Any, context: Row, **_: Any) -> None:
        found.append({**context, "template": template.name})

    with template_rendered.connected_to(note, app):
        yield found


def shown(client: FlaskClient, page: str, **arguments: str) -> tuple[str, Row]:
    """A page, and the variables of its template."""
    with rendered(client.application) as found:
        answer = client.get(f"/c/prod/{page}?{urlencode(arguments)}")
    assert answer.status_code == 200, answer.text
    return answer.text, found[0]


def links_of(page: str, label: str, name: str = "JSON") -> list[str]:
    links = re.findall(rf'href="([^"]*)" aria-label="{name} of {label}', page)
    assert links, label
    return [unescape(link) for link in links]


def rows_of(client: FlaskClient, page: str, label: str) -> list[Row]:
    """The rows of the JSON file of a table."""
    (link,) = links_of(page, label)
    return rows_at(client, link)


def rows_at(client: FlaskClient, link: str) -> list[Row]:
    answer = client.get(link, buffered=True)
    assert answer.status_code == 200, answer.text
    assert answer.content_type == "application/x-ndjson; charset=utf-8"
    return [json.loads(line) for line in answer.text.splitlines()]


def values(rows: Any, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"search": "IMG SRC"},
        {"status": "REWIND"},
        {"search": "group-00", "sort": "-group_id"},
        {"sort": "lag", "search": HOSTILE},
        {"sort": "; DROP", "status": "' OR 1"},
    ],
)
def test_the_groups_of_the_overview(
    client: FlaskClient, tables: DashboardTables, arguments: dict[str, str]
) -> None:
    # At one moment: as of now, ages grow between the page and the query on a slow machine.
    page, of = shown(client, "", at=tables.after.isoformat(), **arguments)
    found = rows_of(client, page, "groups")
    assert len(found) == of["groups"].total
    names = ["group_id", "status", "reason", "members", "partitions", "lag"]
    names += ["max_time_lag_at_least_ms", "min_retention_margin_ms"]
    on_page = {row["group_id"]: row for row in found}
    rows = of["groups"].rows
    assert values((on_page[row["group_id"]] for row in rows), *names) == values(rows, *names)
    sort = of["groups"].sort
    if sort != "rank":
        assert [row[sort] for row in found[: len(rows)]] == [row[sort] for row in rows]


def test_the_tables_of_a_group(client: FlaskClient) -> None:
    for group in (HOSTILE, REWOUND):
        page, of = shown(client, "group", group=group, sort="-lag")
        names: tuple[str, ...] = (
            "topic",
            "partition",
            "status",
            "committed_offset",
            "lag",
            "pending_offset",
        )
        found = rows_of(client, page, "partitions")
        assert values(found, *names) == values(of["partitions"].rows, *names)
        page, of = shown(client, "group", group=group, tab="members")
        members = rows_of(client, page, "members")
        names = ("member_id", "client_id", "client_host", "assignment")
        assert values(members, *names) == values(of["members"].rows, *names)
        page, of = shown(client, "group", group=group, tab="events")
        events = rows_of(client, page, "events")
        assert len(events) == sum(row["events"].count for row in of["events"].page.rows)
    page, of = shown(client, "group", group=REWOUND, search="nothing")
    assert rows_of(client, page, "partitions") == list(of["partitions"].rows) == []
    page, _ = shown(client, "group", group=REWOUND, tab="events", event="offset_rewind")
    (event,) = rows_of(client, page, "events")
    assert (event["event"], event["topic"], event["offset_after"]) == (
        "offset_rewind",
        HOSTILE,
        100,
    )
    page, _ = shown(client, "group", group=REWOUND, tab="events", event="rebalance,offset_reset")
    assert rows_of(client, page, "events") == []


def test_the_tables_of_a_topic(client: FlaskClient) -> None:
    for arguments in ({}, {"search": "PAY", "status": "REWIND"}, {"sort": "-skew"}):
        page, of = shown(client, "topic", topic=HOSTILE, **arguments)
        found = rows_of(client, page, "groups")
        assert len(found) == of["groups"].total
        names: tuple[str, ...] = (
            "group_id",
            "status",
            "readers",
            "partitions",
            "lag",
            "max_lag",
            "skew",
        )
        on_page = {row["group_id"]: row for row in found}
        rows = of["groups"].rows
        assert values((on_page[row["group_id"]] for row in rows), *names) == values(rows, *names)
        names = ("partition", "log_start_offset", "last_stable_offset", "log_end_offset")
        names += ("produce_rate_per_s", "share", "groups", "max_lag")
        found = rows_of(client, page, "partitions")
        assert values(found, *names) == values(of["columns"], *names)
    assert len(rows_of(client, *shown(client, "topic", topic=HOSTILE)[:1], "groups")) == GROUPS + 2


def test_the_topics(client: FlaskClient, tables: DashboardTables) -> None:
    page, of = shown(client, "topics", at=tables.after.isoformat())
    names = ("topic", "readers", "slowest", "max_time_lag_at_least_ms", "min_retention_margin_ms")
    assert values(rows_of(client, page, "topics"), *names) == values(of["topics"].rows, *names)


def test_transactions_and_those_they_block(client: FlaskClient) -> None:
    page, of = shown(client, "transactions")
    (row,) = rows_of(client, page, "pending offsets")
    (pending,) = of["snapshot"].transactions
    names: tuple[str, ...] = (
        "producer_id",
        "producer_epoch",
        "group_id",
        "client_id",
        "log_partition",
    )
    assert values([row], *names) == values([pending], *names)
    names = ("topic", "partition", "committed_offset")
    assert values([row], *names) == values(pending["offsets"], *names)
    assert rows_of(client, page, "blocked groups") == of["blocked"] == []


def test_two_moments_give_the_changes_between_them(
    client: FlaskClient, tables: DashboardTables
) -> None:
    since, until = tables.before.isoformat(), tables.after.isoformat()
    for group in ("", REWOUND):
        page, of = shown(client, "changes", since=since, until=until, group=group)
        sides = [rows_at(client, link) for link in links_of(page, "groups")]
        before, after = ({row["group_id"]: row for row in side} for side in sides)
        changed = {name for name in before if before[name]["status"] != after[name]["status"]}
        assert changed == {row["group_id"] for row in of["groups"].rows} == {REWOUND}
        sides = [rows_at(client, link) for link in links_of(page, "committed offsets")]
        key = ("group_id", "topic", "partition")
        was, became = (
            {values([row], *key)[0]: row["committed_offset"] for row in side} for side in sides
        )
        back = {one: was[one] - became[one] for one in was if was[one] != became[one]}
        assert set(back) == {(REWOUND, HOSTILE, 0), (REWOUND, HOSTILE, 1)}
        (moved,) = of["moved"].rows
        assert sum(back.values()) == moved["back"]
        (event,) = rows_of(client, page, "events")
        assert event["record_offset"] == 39


def test_health_and_alerts(client: FlaskClient, tables: DashboardTables) -> None:
    now = datetime.now(timezone.utc)
    states = (AlertState.RESOLVED, AlertState.PENDING, AlertState.FIRING)
    keys = [AlertKey("slow", HOSTILE, HOSTILE, number) for number in range(len(states))]
    write_alerts(
        open_alerts(tables.folder),
        {
            key: Alert(
                key=key,
                severity="warning",
                state=state,
                since=now - timedelta(minutes=key.partition or 0),
                reason=HOSTILE,
            )
            for key, state in zip(keys, states, strict=True)
        },
    )
    page, of = shown(client, "alerts")
    found = rows_of(client, page, "alerts")
    names: tuple[str, ...] = ("rule", "group_id", "topic", "partition", "state", "reason")
    assert values(found, *names) == values(of["alerts"], *names)
    page, of = shown(client, "health", sort="-records_read")
    names = ("log_partition", "state", "next_offset", "behind", "records_read", "unaccounted")
    found = rows_of(client, page, "log partitions")
    assert values(found, *names) == values(of["progress"].rows, *names)
    names = ("log_partition", "record_offset", "reason")
    found = rows_of(client, page, "the quarantine")
    assert values(found, *names) == values(of["quarantined"], *names)
    assert rows_of(client, page, "other internal topics") == list(of["others"]) == []


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
    expected = [asdict(one) for one in topic_loads(TableReader(folder)).values()]
    (found,) = tables.sql(table_queries.topic_loads()).arrow.to_pylist()
    assert found == {name: expected[0][name] for name in found}
    assert (found["behind"], found["current"]) == (4, 1)


@pytest.mark.parametrize("text", ["it's", "\x00", "a\nb", "\u202e\\", "", "%_*", "🙂"])
def test_a_query_finds_any_name(tmp_path: Path, text: str) -> None:
    folder = create_tables(tmp_path / "tables")
    now = datetime.now(timezone.utc)
    groups = [{"group_id": name, "state": "Empty"} for name in (text, "other")]
    apply_micro_batch(folder, progress=[{"updated_at": now}], groups=groups)
    tables = CoordinatorTables(folder)
    (found,) = tables.sql(table_queries.groups_at(text)).arrow.to_pylist()
    assert found["group_id"] == text
    searched = tables.sql(
        table_queries.groups(MultiDict({"search": text.upper()}))
    ).arrow.to_pylist()
    assert [row["group_id"] for row in searched] == ([text, "other"] if text == "" else [text])


def test_filters_of_several_values(tables: DashboardTables) -> None:
    sql = CoordinatorTables(tables.folder).sql
    for arguments, count in (
        ([("status", "REWIND"), ("status", "HANGING_TRANSACTION"), ("status", "")], 2),
        ([("state", "Stable"), ("type", "classic"), ("topic", "IMG")], GROUPS + 2),
        ([("state", "Empty"), ("state", "it's")], 0),
        ([("topic", "nothing")], 0),
    ):
        assert len(sql(table_queries.groups(MultiDict(arguments))).arrow) == count
    for arguments, count in (
        ([("topic", HOSTILE)], 2),
        ([("member", MEMBER)], 2),
        ([("topic", "x")], 0),
    ):
        assert (
            len(sql(table_queries.group_partitions(REWOUND, MultiDict(arguments))).arrow) == count
        )
