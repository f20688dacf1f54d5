"""The page of a share group."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from coordinator_state.insight.lag import NO_START_OFFSET
from streaming.dashboard.app import create_app
from tests.support.browser.html import page_of, part_of, rows_of
from tests.support.tables.share_tables import GROUP, TOPIC, create_share_tables, share_partition


def test_the_page_of_a_share_group(tmp_path: Path) -> None:
    now = datetime.now(timezone.utc)
    batches = [
        {"first_offset": first, "last_offset": last, "delivery_state": state, "delivery_count": n}
        for first, last, state, n in ((70, 79, 4, 5), (60, 62, 0, 2), (63, 69, 2, 1))
    ]
    partitions = [
        share_partition(60, 17, at=now, state_batches=batches),
        share_partition(-1, None, at=now, partition=1),
        share_partition(0, 0, at=now, partition=2, topic=None, topic_id="unnamed"),
    ]
    tables = create_share_tables(tmp_path / "tables", now, partitions)
    client = create_app({"prod": tables}).test_client()
    page = page_of(client, "group", group=GROUP, sort="-committed_offset")
    assert "Start offsets and lag by partition" in page
    assert '<td class="number">60</td>' in page
    assert f"<small>{NO_START_OFFSET}</small>" in page
    assert "The tables have no lag history of share groups." in page
    assert "data-chart" not in page
    for path in (f"group/why?group={GROUP}", f"group/chart?group={GROUP}", f"topic?topic={TOPIC}"):
        page_of(client, path)

    page = page_of(client, "group", group=GROUP, tab="deliveries")
    assert "Transactions" not in part_of(page, 'id="tables"', "<section")
    first, *_, last = rows_of(page, "Deliveries")
    assert first[:9] == [
        *(TOPIC, "0", "60", "17", "3", "7", "10", "5"),
        "60 to 62 available (2 times) , 63 to 69 acknowledged (1 time) , "
        "70 to 79 archived (5 times)",
    ]
    assert last[0] == "unnamed"
