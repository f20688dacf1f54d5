"""Events on the pages Changes and Group."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from streaming.dashboard.app import create_app
from streaming.tables.schemas import LOAD_PROGRESS
from tests.support.browser.html import page_of, part_of, text_of
from tests.support.tables.event_rows import BEGIN, by_member, event_row, moved
from tests.support.tables.tables_folder import apply_micro_batch, backdate, create_tables

DELETED = 451
MEMBERS = ("search-consumer-aaaa51f4", "search-consumer-bbbb0b9e")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> FlaskClient:
    """A rewind of `payments`, then 451 deleted offsets of `returns` and a churning member."""
    folder = create_tables(tmp_path_factory.mktemp("events") / "tables")
    now = datetime.now(timezone.utc)
    progress = [{"next_offset": 1, "high_watermark": 1, "updated_at": now}]
    apply_micro_batch(folder, progress=progress)
    backdate(folder, LOAD_PROGRESS, now - timedelta(minutes=10))
    rows = [
        moved("offset_rewind", 990, 100, **by_member(MEMBERS[0]), group_id="payments"),
        *(
            event_row(
                "offset_deleted",
                at_s=1 + number / 10,
                group_id="returns",
                **{"topic": "returns", "partition": number % 9, "offset_before": 7},
            )
            for number in range(DELETED)
        ),
        *(
            event_row(event, at_s=10 + number, group_id="payments", **by_member(MEMBERS[0]))
            for number in range(99)
            for event in ("member_joined", "member_left")
        ),
    ]
    for number, row in enumerate(rows):
        at = now - timedelta(minutes=5) + (row["record_timestamp"] - BEGIN)
        row |= {"record_timestamp": at, "day": at.date(), "record_offset": number}
    owned = {"topic": "orders", "topic_id": None}
    apply_micro_batch(
        folder,
        group_events=rows,
        groups=[{"group_id": "payments", "state": "Stable", "member_count": 2}],
        group_members=[
            {
                **{"group_id": "payments", **by_member(member)},
                "assignment": [{**owned, "partition": number}],
            }
            for number, member in enumerate(MEMBERS)
        ],
        group_offsets=[
            {"group_id": "payments", "topic": "orders", "partition": n, "committed_offset": 1}
            for n in (0, 1)
        ],
        progress=progress,
    )
    return create_app({"prod": folder}).test_client()


def section(client: FlaskClient, path: str, name: str = "events", /, **arguments: str) -> str:
    """A section of a page; of a group, its tab."""
    if path == "group":
        arguments["tab"] = name
    page = page_of(client, path, **arguments)
    return part_of(page, f'<section aria-labelledby="{name}">', "</section>")


def rows(client: FlaskClient, path: str, /, **arguments: str) -> list[str]:
    """The texts of the rows of the table of events."""
    body = section(client, path, **arguments).partition("<tbody>")[2]
    return [text_of(row) for row in re.findall(r"<tr[^>]*>(.*?)</tr>", body)]


def test_one_rewind_is_above_hundreds_of_deletions(client: FlaskClient) -> None:
    first, second, third = rows(client, "changes")

    assert "orders:0 set back from 990 to 100 by search-consumer-51f4 at /10.0.0.1" in first
    assert "451 offsets deleted of 9 partitions of returns; client not recorded" in second
    assert "search-consumer-51f4 at /10.0.0.1 joined and left 99 times in 98 s" in third


def test_the_count_of_a_row_leads_to_each_event(client: FlaskClient) -> None:
    links = re.findall(r'<a href="([^"]*folded=no[^"]*)#events"', section(client, "changes"))
    assert len(links) == 2
    assert "event=offset_deleted" in links[0]
    assert "group=returns" in links[0]
    each = client.get(links[0]).text
    assert "451 of 451 rows" in each
    assert "page 1 of 5" in each
    newest = rows(client, "changes", event="offset_deleted", group="returns", folded="no")
    assert len(newest) == 100
    assert "offset 7 of returns:0 deleted; client not recorded by Kafka" in newest[0]
    last = {"event": "offset_deleted", "group": "returns", "folded": "no", "page": "5"}
    assert len(rows(client, "changes", **last)) == 51
    assert len(rows(client, "changes", event="member_joined,member_left")) == 1


def test_changes_are_of_one_group(client: FlaskClient) -> None:
    assert len(rows(client, "changes", group="returns")) == 1
    assert "No events." in rows(client, "changes", group="nobody")[0]
    groups = section(client, "changes", "groups", group="payments")
    assert "payments" in groups
    assert "No group changed." in section(client, "changes", "groups", group="returns")
    assert "No committed offset" in section(client, "changes", "offsets", group="returns")
    new_partitions = '<td class="number">2</td>'
    assert new_partitions in section(client, "changes", "offsets", group="payments")


def test_a_group_has_its_events_newest_first(client: FlaskClient) -> None:
    churn, rewind = rows(client, "group", group="payments")
    assert "joined and left 99 times" in churn
    assert "set back from 990" in rewind
    (only,) = rows(client, "group", group="payments", event="offset_rewind")
    assert "set back from 990" in only
    each = {"group": "payments", "event": "member_joined,member_left", "folded": "no"}
    assert len(rows(client, "group", **each)) == 100
    shown = section(client, "group", **each)
    assert "98 more events are not shown" in shown
    assert "Fold equal events" in shown
    assert len(rows(client, "group", group="returns")) == 1


def test_members_on_one_host_are_told_apart(client: FlaskClient) -> None:
    for name in ("members", "partitions"):
        shown = section(client, "group", name, group="payments")
        for member, label in zip(MEMBERS, ("51f4", "0b9e"), strict=True):
            title = f'<span title="Member id: {member}">search-consumer-{label}</span>'
            assert title in shown
    assert f'title="Member id: {MEMBERS[0]}"' in section(client, "group", group="payments")


def test_a_period_begins_with_its_first_whole_second(tmp_path: Path) -> None:
    """The page shows whole seconds, so an event of the first one is not missed."""
    folder = create_tables(tmp_path)
    now = datetime.now(timezone.utc)
    progress = [{"updated_at": now}]
    apply_micro_batch(folder, progress=progress)
    backdate(folder, LOAD_PROGRESS, now - timedelta(minutes=10))
    second = (now - timedelta(minutes=5)).replace(microsecond=0)
    times = {"before": -0.1, "first": 0.1, "later": 1.1}
    found = []
    for number, (group_id, after_s) in enumerate(times.items()):
        at = second + timedelta(seconds=after_s)
        row = event_row("group_created", group_id=group_id, record_offset=number)
        found.append(row | {"record_timestamp": at, "day": at.date()})
    single = {"group_id": "single", "state": "Stable", "member_count": 1}
    apply_micro_batch(folder, group_events=found, groups=[single], progress=progress)
    client = create_app({"prod": folder}).test_client()

    since = second.replace(microsecond=900_000).isoformat()
    named = [row.split("group created")[0] for row in rows(client, "changes", since=since)]
    assert [name.split()[-1] for name in named] == ["later", "first"]
    assert "Stable, 1 member, 0 partitions" in section(client, "changes", "groups", since=since)
